/*
code = "NU016"
name = "nonfinite-weights-loaded"
severity = "error"
phase = "forward"
signal = "nonfinite_count"
message = "Parameter {tensor} was not finite before the first update ({nan_count} NaN, {inf_count} infinite of {numel} elements): the training began with it."
fix = "Load another checkpoint, or initialise the parameter; check when the checkpoint was written and that the model's own init covers it."
explains = ["nonfinite-tensor", "loss-spike", "divergence", "exploding-gradients", "python-exception", "fp16-overflow", "log-of-zero", "sqrt-at-zero", "fully-masked-attention-row", "optimizer-eps-underflow"]
[needs]
tables = ["tensor_stats"]
[doc]
what = "A weight holds NaN or infinity before any optimizer step, and the first step is bad."
why = "A corrupt checkpoint, or memory that was never initialised, makes every number computed from it worthless."
not_this = "Parameters that hold -inf as a mask while the first step stays finite."
source = "Arithmetic."
*/
SELECT s.rank, s.step, s.microbatch, s.seq, s.phase, s.module, s.tensor, s.nan_count + s.inf_count AS value, s.nan_count, s.inf_count, s.numel, s.dtype
FROM stats s
WHERE s.kind = 'parameter' AND s.phase = 'forward' AND s.nan_count + s.inf_count > 0
  AND EXISTS (SELECT 1 FROM nonfinite_origin o WHERE o.rank = s.rank AND o.step = s.step)
ORDER BY s.step, s.rank, s.seq
