/*
code = "NU016"
name = "nonfinite-weights-loaded"
severity = "error"
phase = "forward"
signal = "nonfinite_count"
message = "Parameter {tensor} was not finite {when_} ({nan_count} NaN, {inf_count} infinite of {numel} elements): the training went on from it."
fix = "Load another checkpoint, or initialise the parameter. Check when the checkpoint was written and that the model's own init covers it."
seeks = ["nonfinite_origin: true"]
explains = ["nonfinite-values", "loss-off-course", "exploding-gradients", "nonfinite-operator", "fully-masked-attention-row", "silent-data-corruption"]
[say.when_]
before_first_update = "before the first update"
after_loading = "after weights had been loaded and before the next update"
[needs]
tables = ["tensor_stats"]
[doc]
what = "A weight holds NaN or infinity before any optimizer step. Or it does so after weights were loaded in the middle of a run, before the update that follows. The first step with it is bad."
why = "A corrupt checkpoint, or memory that was never initialised, makes every number computed from it worthless."
not_this = "Parameters that hold -inf as a mask while the first step stays finite."
source = "Arithmetic."
*/
SELECT s.rank, s.step, s.microbatch, s.seq, s.phase, s.module, s.tensor, s.nan_count + s.inf_count AS value,
    s.nan_count, s.inf_count, s.numel, s.dtype,
    'before_first_update' AS when_
FROM stats s
WHERE s.kind = 'parameter' AND s.phase = 'forward' AND s.nan_count + s.inf_count > 0
  AND EXISTS (SELECT 1 FROM nonfinite_origin o WHERE o.rank = s.rank AND o.step = s.step)
UNION ALL BY NAME
-- up to the step before all that was updated had stayed finite, or this would not be the first bad step
SELECT s.rank, s.step, s.microbatch, s.seq, s.phase, s.module, s.tensor, s.nan_count + s.inf_count AS value,
    s.nan_count, s.inf_count, s.numel, s.dtype,
    'after_loading' AS when_
FROM nonfinite_origin o JOIN stats s ON s.rank = o.rank AND s.step = o.step
WHERE s.kind = 'parameter' AND s.phase = 'loss' AND s.nan_count > 0
  AND EXISTS (SELECT 1 FROM events e WHERE e.rank = o.rank AND e.step = o.step AND e.event = 'weights-loaded')
ORDER BY step, rank, seq
