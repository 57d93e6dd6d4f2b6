/*
code = "NU002"
name = "sqrt-at-zero"
severity = "error"
phase = "backward"
signal = "zero_count"
message = "The loss of step {step} is finite, but {op} was differentiated at {where_} (of {numel}, {dtype}), where its derivative is infinite, and gradients became non-finite.{rerun}"
fix = "Add a small eps inside the root: (x.square().sum(-1) + eps).sqrt(), (x.var(-1) + eps).sqrt(), torch.linalg.vector_norm (its gradient at zero is 0); leave out zero vectors and constant groups; keep the argument of acos and asin inside clamp(-1 + eps, 1 - eps), or use atan2."
explains = ["nonfinite-tensor", "loss-spike", "divergence", "optimizer-eps-underflow", "python-exception"]
[needs]
tables = ["steps"]
[doc]
what = "The forward pass is finite, a square root (or reciprocal root, norm, fractional power) had reached exactly zero, or an acos or asin the end of its domain, and the gradients of the same step are not finite."
why = "d sqrt(x)/dx = 1/(2 sqrt(x)) is infinite at 0, as is that of acos at 1, and inf times 0 is NaN: a finite loss hides it until the weights are gone."
not_this = "Roots at zero whose gradients stay finite (torch defines the subgradient of norm and std there as 0), steps whose loss is already non-finite, and steps that a GradScaler skipped for an overflow."
source = "Arithmetic: derivative of the square root."
*/
WITH broken AS (
    SELECT s.rank, s.step FROM steps s
    GROUP BY s.rank, s.step
    HAVING bool_and(isfinite(s.loss)) AND bool_or(is_nonfinite(s.grad_norm) OR is_nonfinite(s.clip_norm) OR coalesce(s.skipped_by_scaler, false))
), nan_gradient AS (
    SELECT rank, step, min(seq) AS seq FROM nonfinite
    WHERE kind IN ('gradient', 'activation_gradient') AND nan_count + inf_count > 0 GROUP BY rank, step
), forward_lost AS (
    SELECT DISTINCT rank, step FROM nonfinite WHERE kind IN ('activation', 'output', 'loss') AND nan_count > 0 AND phase <> 'eval'
)
SELECT p.rank, p.step, p.microbatch, p.seq, 'backward' AS phase, p.module, p.op || '.' || p.saved AS tensor, p.op, CASE WHEN p.op IN ('Acos', 'Asin') THEN 'the end of its domain' ELSE p.zero_count || ' exact zeros' END AS where_, p.zero_count AS value,
    p.zero_count, p.numel, p.dtype, p.shape, p.min, p.max, p.graph_seq,
    coalesce((SELECT f.sentence FROM first_bad_operator f WHERE f.rank = p.rank AND f.step = p.step), '') AS rerun
FROM operator_sites p
JOIN broken b ON b.rank = p.rank AND b.step = p.step
JOIN bad_steps s ON s.rank = p.rank AND s.step = p.step AND NOT list_contains(s.signs, 'loss')
WHERE (p.op IN ('Sqrt', 'Rsqrt', 'Pow', 'Norm', 'LinalgVectorNorm', 'Cdist') AND p.zero_count > 0 OR p.op IN ('Acos', 'Asin') AND greatest(abs(p.min), abs(p.max)) = 1)
  AND (p.rank, p.step) NOT IN (SELECT (rank, step) FROM forward_lost)
  AND (p.op NOT IN ('Norm', 'LinalgVectorNorm', 'Cdist') OR NOT EXISTS (
      SELECT 1 FROM operators q WHERE q.rank = p.rank AND q.step = p.step AND q.zero_count > 0 AND q.op IN ('Sqrt', 'Rsqrt', 'Pow')))
  -- the same operator at zero in an earlier, finite step shows that it is not the one, unless running it once more has shown that it is: what
  -- comes ahead of it may have kept its NaN back so far, as a ReLU does whose output is zero
  AND ((p.rank, p.step, p.op) IN (SELECT (rank, step, regexp_replace(node, 'Backward[0-9]*$', '')) FROM first_bad_operator) OR NOT EXISTS (
      SELECT 1 FROM operators q
      WHERE q.rank = p.rank AND q.step < p.step AND q.op = p.op AND q.module_id IS NOT DISTINCT FROM p.module_id
        AND (q.zero_count > 0 OR q.op IN ('Acos', 'Asin') AND greatest(abs(q.min), abs(q.max)) = 1) AND (q.rank, q.step) NOT IN (SELECT (rank, step) FROM bad_steps)))
ORDER BY p.step, p.rank, p.graph_seq DESC, p.seq
