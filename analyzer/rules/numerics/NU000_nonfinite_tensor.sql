/*
code = "NU000"
name = "nonfinite-tensor"
severity = "error"
is = ["nonfinite-values"]
phase = "forward"
signal = "nonfinite_count"
message = "The first number that was lost: {origin_} at step {step} {held_}.{compiled_}{rerun}{spared_}"
fix = "Look at what {origin_} is computed from in this step. A capture of the module's inputs or torch.autograd.detect_anomaly on this one batch shows the operator."
seeks = ["nonfinite_origin: true"]
explains = ["loss-off-course", "python-exception", "dead-relu", "vanishing-gradients", "no-optimizer-step", "broken-graph", "nonfinite-metric"]
generic = true
reach = 100
slack = 1
[say.origin_]
loss = "the loss"
tensor = "{kind} {tensor}"
gradient = "a gradient"

[say.held_]
elements = "held {nan_count} NaN and {inf_count} infinite of {numel} elements ({dtype}, {phase} phase); everything captured before it in this step was finite"
number = "was not finite; no tensor was recorded before it in this step"
[say.spared_]
without_gradient = " The gradients of this step are finite: what was lost is a term of the loss without a gradient, computed from targets or constants; the weights are unhurt."
[needs]
tables = ["steps"]
[doc]
what = "This is the first non-finite tensor in order of capture. It is in the first step in which a loss, a used gradient or a weight was not finite."
why = "It is where the fault became visible; a more specific rule says why, this one says where."
not_this = "Masks of -inf, gradients that a GradScaler threw away, forwards in eval mode, NaN that reached nothing."
source = "Arithmetic and graph order."
*/
SELECT rank, step, microbatch,
    CASE WHEN kind = 'loss' THEN 'loss' WHEN tensor IS NULL THEN 'gradient' ELSE 'tensor' END AS origin_,
    -- a recording without tensors knows the number alone
    if(numel IS NULL, 'number', 'elements') AS held_,
    nullif(seq, 2147483647) AS seq, phase, module, tensor, kind, dtype, shape,
    nan_count + inf_count AS value, nan_count, inf_count, numel, class_name, min, max,
    coalesce((SELECT f.sentence
        FROM first_bad_operator f
        WHERE f.rank = nonfinite_origin.rank AND f.step = nonfinite_origin.step),
        '') AS rerun,
    coalesce((SELECT v.sentence
        FROM compiled_values v
        WHERE v.rank = nonfinite_origin.rank
          AND v.step = nonfinite_origin.step
          AND v.stat_seq = nonfinite_origin.seq),
        '') AS compiled_,
    CASE WHEN kind = 'loss'
        AND (SELECT bool_and(isfinite(s.grad_norm))
            FROM steps s
            WHERE s.rank = nonfinite_origin.rank AND s.step = nonfinite_origin.step)
        THEN 'without_gradient' END AS spared_
FROM nonfinite_origin
ORDER BY step, rank
