/*
code = "NU014"
name = "norm-overflow"
severity = "error"
phase = "optimizer"
signal = "clip_norm"
message = "At step {step} {found_} ({tensors_} tensors, {dtypes}): the norm overflowed, and clipping by it set all gradients to zero."
fix = "Take the norm in float32: cast the gradients, or keep float32 master weights. Find out why the gradients are so large; error_if_nonfinite=True makes it visible."
seeks = ["steps: isinf(clip_norm) OR stepped AND grad_norm = 0 AND clip_norm IS NULL AND loss <> 0"]
explains = ["nonfinite-tensor", "zero-grad-before-step", "gradients-vanish", "lr-too-low", "no-optimizer-step", "clip-always-active", "clip-ineffective", "plateau", "silent-backend-noop", "update-lost-to-rounding", "exploding-gradients", "fp16-overflow", "loss-spike"]
[say.found_]
norm_infinite = "clip_grad_norm_ found an infinite total norm although every gradient was finite"
multiplied_by_zero = "every gradient was multiplied by zero: finite gradients flowed back through the modules, and until then the script itself had held their norm at {level:.4g}"
[params.held]
value = 0.005
doc = "Share by which norms may differ and still be one that the script's own clipping holds."
source = "convention: of this project, float32 sums in another order, and a scale that is divided out"
[params.least]
value = 6
unit = "steps"
doc = "Steps before the first zero whose norm was held so, and steps of zeros from it on."
source = "convention: of this project, as many equal norms are no chance"
[params.back]
value = 30
unit = "steps"
doc = "Steps before in which a norm must have been held."
source = "convention: of this project, the window of the view optimizer_series"
[needs]
tables = ["steps", "tensor_stats"]
kinds = ["gradient"]
[doc]
what = "The total norm is infinite, and after clipping by it every gradient is still finite. An infinite element times max_norm / inf would have become NaN. Or the script clips by hand, and norms had been held at one value. Then all gradients are zeros, some of them negative, in most steps to the end. Meanwhile finite gradients flow back through the modules."
why = "The norm is computed in the dtype of the gradients. In float16 it ends at 65504; squares of float32 numbers above 1e19 overflow too."
not_this = "Gradients that hold infinities or NaN themselves, steps that a GradScaler skips. Gradients that zero_grad cleared or that a flat loss left (zeros without a sign). A batch left out now and then."
source = "Arithmetic: inf · 0 = NaN, finite · 0 = 0; a negative number times 0 is -0."
*/
WITH emptied AS (
    -- all gradients zero as the optimizer saw them, though the script called neither clip_grad_norm_ nor
    -- zero_grad
    SELECT s.rank, s.step, s.optimizer_id FROM steps s
    WHERE s.stepped
      AND s.microbatches >= 1
      AND s.grad_norm = 0
      AND s.clip_norm IS NULL
      AND isfinite(s.loss)
      AND s.loss <> 0
      AND NOT coalesce(s.skipped_by_scaler, false)
      AND NOT coalesce(regexp_matches(s.calls, 'b[^bs]*z[^bs]*s'), false)
), first_ AS (
    SELECT rank, optimizer_id, min(step) AS step, count(*) AS steps_ FROM emptied GROUP BY rank, optimizer_id
), held AS (
    SELECT f.rank, f.optimizer_id, f.step, max(s.grad_norm) FILTER (s.step < f.step) AS level
    FROM first_ f
    JOIN steps s ON s.rank = f.rank
        AND s.optimizer_id IS NOT DISTINCT FROM f.optimizer_id
        AND s.step >= f.step - $back
    GROUP BY f.rank, f.optimizer_id, f.step, f.steps_
    HAVING f.steps_ >= $least AND 2 * f.steps_ >= count(*) FILTER (s.step >= f.step AND s.stepped)
), clipped AS (
    SELECT h.rank, h.optimizer_id, h.step, h.level FROM held h
    JOIN steps s ON s.rank = h.rank
        AND s.optimizer_id IS NOT DISTINCT FROM h.optimizer_id
        AND s.step BETWEEN h.step - $back AND h.step - 1
        AND s.grad_norm >= (1 - $held) * h.level
    GROUP BY ALL HAVING count(*) >= $least
), multiplied AS (
    SELECT c.rank, c.step, c.level, count(*) AS tensors_,
        string_agg(DISTINCT g.dtype, ', ' ORDER BY g.dtype) AS dtypes
    FROM clipped c
    JOIN stats g ON g.rank = c.rank
        AND g.step = c.step
        AND g.kind = 'gradient'
        AND NOT coalesce(g.missing, false)
    JOIN parameters p ON p.rank = g.rank
        AND p.gradient_id = g.tensor_id
        AND p.optimizer_id IS NOT DISTINCT FROM c.optimizer_id
    GROUP BY c.rank, c.step, c.level
    HAVING sum(g.nonfinite_count) = 0 AND max(g.sum_sq) = 0 AND bool_or(signbit(g.min) OR signbit(g.max))
)
SELECT s.rank, s.step,
    'norm_infinite' AS found_,
    count(*) AS tensors_, count(*) AS value, string_agg(DISTINCT g.dtype, ', ' ORDER BY g.dtype) AS dtypes
FROM steps s
JOIN stats g ON g.rank = s.rank AND g.step = s.step AND g.kind = 'gradient' AND NOT coalesce(g.missing, false)
WHERE isinf(s.clip_norm) AND NOT coalesce(s.skipped_by_scaler, false) AND NOT is_nonfinite(s.loss)
GROUP BY s.rank, s.step HAVING sum(g.nonfinite_count) = 0
UNION ALL BY NAME
SELECT m.rank, m.step, m.level, 'multiplied_by_zero' AS found_,
    m.tensors_, m.tensors_ AS value, m.dtypes
FROM multiplied m
WHERE EXISTS (SELECT 1
    FROM stats a
    WHERE a.rank = m.rank AND a.step = m.step AND a.kind = 'activation_gradient' AND a.sum_sq > 0)
  AND NOT EXISTS (SELECT 1
      FROM stats a
      WHERE a.rank = m.rank AND a.step = m.step AND a.kind = 'activation_gradient' AND a.nonfinite_count > 0)
ORDER BY step, rank
