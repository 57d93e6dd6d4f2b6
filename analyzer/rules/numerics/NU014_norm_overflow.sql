/*
code = "NU014"
name = "norm-overflow"
severity = "error"
phase = "optimizer"
signal = "clip_norm"
message = "At step {step} clip_grad_norm_ found an infinite total norm although every gradient was finite ({tensors_} tensors, {dtypes}): the norm overflowed, and clipping by it set all gradients to zero."
fix = "Take the norm in float32 (cast the gradients, or keep float32 master weights), and find out why the gradients are so large; error_if_nonfinite=True makes it visible."
explains = ["nonfinite-tensor", "zero-grad-before-step", "frozen-by-zero-gradient", "lr-too-low", "no-optimizer-step", "clip-always-active", "clip-ineffective", "plateau", "vanishing-gradients", "silent-backend-noop", "update-lost-to-rounding", "exploding-gradients", "fp16-overflow", "loss-spike"]
[needs]
tables = ["steps", "tensor_stats"]
columns = ["steps.clip_norm"]
kinds = ["gradient"]
[doc]
what = "The total norm is infinite, and after clipping by it every gradient is still finite: an infinite element times max_norm / inf would have become NaN."
why = "The norm is computed in the dtype of the gradients. In float16 it ends at 65504; squares of float32 numbers above 1e19 overflow too."
not_this = "Gradients that hold infinities or NaN themselves, steps that a GradScaler skips."
source = "Arithmetic: inf · 0 = NaN, finite · 0 = 0."
*/
SELECT s.rank, s.step, count(*) AS tensors_, count(*) AS value, string_agg(DISTINCT g.dtype, ', ' ORDER BY g.dtype) AS dtypes
FROM steps s JOIN stats g ON g.rank = s.rank AND g.step = s.step AND g.kind = 'gradient' AND NOT coalesce(g.missing, false)
WHERE isinf(s.clip_norm) AND NOT coalesce(s.skipped_by_scaler, false) AND NOT is_nonfinite(s.loss)
GROUP BY s.rank, s.step HAVING sum(g.nonfinite_count) = 0
ORDER BY s.step, s.rank
