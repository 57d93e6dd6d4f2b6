/*
code = "NU024"
name = "unexplained-nonfinite"
severity = "error"
phase = "forward"
signal = "nonfinite_count"
message = "Numbers were lost and nothing recorded says why: {origin} at step {step} was the first ({held}).{rerun}"
fix = "Look at what {origin} is computed from in this step. A capture of the module's inputs or torch.autograd.detect_anomaly on this one batch shows the operator."
explains = ["nonfinite-tensor", "loss-off-course", "python-exception", "dead-relu", "vanishing-gradients", "no-optimizer-step", "broken-graph", "nonfinite-metric"]
generic = true
reach = 100
slack = 1
[needs]
tables = ["steps"]
[doc]
what = "A loss, a used gradient or a weight was not finite, and no rule has positive evidence for a cause."
why = "Something is certainly wrong, but the cause is not certain. A name without evidence would send people to the wrong place."
not_this = "Every run in which a rule that explains lost numbers fired: then this one is left out."
source = "Arithmetic and graph order."
*/
SELECT rank, step, microbatch, nullif(seq, 2147483647) AS seq, phase, module, tensor,
    nan_count + inf_count AS value, nan_count, inf_count, numel, dtype, shape, class_name, min, max,
    CASE WHEN kind = 'loss' THEN 'the loss' ELSE coalesce(kind || ' ' || tensor, 'a ' || kind) END AS origin,
    CASE WHEN numel IS NULL THEN 'no tensor was recorded before it in this step'
        ELSE nan_count || ' NaN and ' || inf_count || ' infinite of ' || numel || ' elements, ' || dtype
            || ', ' || phase || ' phase; everything captured before it in this step was finite'
            END AS held,
    coalesce((SELECT f.sentence FROM first_bad_operator f WHERE f.rank = o.rank AND f.step = o.step),
        '') AS rerun
FROM nonfinite_origin o
ORDER BY step, rank
