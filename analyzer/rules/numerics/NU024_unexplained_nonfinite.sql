/*
code = "NU024"
name = "unexplained-nonfinite"
severity = "error"
phase = "forward"
signal = "nonfinite_count"
message = "Numbers were lost and nothing recorded says why: {origin_} at step {step} was the first ({held_}).{rerun}"
fix = "Look at what {origin_} is computed from in this step. A capture of the module's inputs or torch.autograd.detect_anomaly on this one batch shows the operator."
seeks = ["nonfinite_origin: true"]
explains = ["nonfinite-tensor", "loss-off-course", "python-exception", "dead-relu", "vanishing-gradients", "no-optimizer-step", "broken-graph", "nonfinite-metric"]
generic = true
reach = 100
slack = 1
[say.origin_]
loss = "the loss"
tensor = "{kind} {tensor}"
gradient = "a gradient"

[say.held_]
elements = "{nan_count} NaN and {inf_count} infinite of {numel} elements, {dtype}, {phase} phase; everything captured before it in this step was finite"
number = "no tensor was recorded before it in this step"
[needs]
tables = ["steps"]
[doc]
what = "A loss, a used gradient or a weight was not finite, and no rule has positive evidence for a cause."
why = "Something is certainly wrong, but the cause is not certain. A name without evidence would send people to the wrong place."
not_this = "Every run in which a rule that explains lost numbers fired: then this one is left out."
source = "Arithmetic and graph order."
*/
SELECT rank, step, microbatch, nullif(seq, 2147483647) AS seq, phase, module, tensor,
    nan_count + inf_count AS value, nan_count, inf_count, numel, kind, dtype, shape, class_name, min, max,
    CASE WHEN kind = 'loss' THEN 'loss' WHEN tensor IS NULL THEN 'gradient' ELSE 'tensor' END AS origin_,
    if(numel IS NULL, 'number', 'elements') AS held_,
    coalesce((SELECT f.sentence FROM first_bad_operator f WHERE f.rank = o.rank AND f.step = o.step),
        '') AS rerun
FROM nonfinite_origin o
ORDER BY step, rank
