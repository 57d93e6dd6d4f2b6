/*
code = "NU024"
name = "unexplained-nonfinite"
severity = "error"
phase = "forward"
signal = "nonfinite_count"
message = "Numbers were lost and nothing recorded says why: {origin_} at step {step} was the first ({held_}).{rerun}{made_}{again_}"
fix = "{remedy_}"
seeks = ["nonfinite_origin: true"]
explains = ["nonfinite-tensor", "loss-off-course", "python-exception", "dead-relu", "vanishing-gradients", "no-optimizer-step", "broken-graph", "nonfinite-metric"]
generic = true
reach = 100
slack = 1
[say.origin_]
loss = "the loss"
tensor = "{kind} {tensor}"
gradient = "a gradient"

[say.again_]
outside = " Later, at step {again}, {again_op} at {source} ({code}) lost numbers outside any graph."
[say.made_]
result = " In the graph of the loss {operator} was the first to hold such numbers, in {lost} of the {results} that it made."
[say.remedy_]
look = "Look at what {origin_} is computed from in this step. A capture of the module's inputs or torch.autograd.detect_anomaly on this one batch shows the operator."
bound_exp = "Bound what goes into exp(), as in torch.clamp(logvar, -30, 20): in float32 it is infinite from 88.8 on. Look too at what made it so large in this step, such as an input that is not scaled."
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
SELECT o.rank, o.step, microbatch, nullif(seq, 2147483647) AS seq, phase, module, tensor,
    o.nan_count + o.inf_count AS value, o.nan_count, o.inf_count, o.numel, kind, dtype, o.shape, class_name,
    min, max,
    CASE WHEN kind = 'loss' THEN 'loss' WHEN tensor IS NULL THEN 'gradient' ELSE 'tensor' END AS origin_,
    if(o.numel IS NULL, 'number', 'elements') AS held_,
    coalesce((SELECT f.sentence FROM first_bad_operator f WHERE f.rank = o.rank AND f.step = o.step),
        '') AS rerun,
    if(f.op IS NULL, NULL, 'result') AS made_, f.op AS operator, f.lost, f.results,
    if(f.op = 'Exp' AND f.infinite, 'bound_exp', 'look') AS remedy_,
    if(a.op IS NULL, NULL, 'outside') AS again_, a.step AS again, a.op AS again_op, a.source, a.code
FROM nonfinite_origin o
LEFT JOIN (
    FROM lost_outside_graph QUALIFY row_number() OVER (PARTITION BY rank ORDER BY step) = 1
) a ON a.rank = o.rank AND a.step >= o.step AND o.kind = 'loss'
LEFT JOIN (
    -- what an operator has saved: its result is lost, and nothing was that it or those before it took in
    SELECT rank, step, op, saved, nan_count + inf_count AS lost, numel AS results, nan_count = 0 AS infinite
    FROM operators
    WHERE trigger = 'nonfinite' AND nan_count + inf_count > 0
    QUALIFY row_number() OVER (PARTITION BY rank, step ORDER BY graph_seq, saved = 'result') = 1
) f ON f.rank = o.rank AND f.step = o.step AND o.kind = 'loss' AND f.saved = 'result'
ORDER BY o.step, o.rank
