/*
code = "NU003"
name = "masked-branch-nan-gradient"
severity = "error"
phase = "backward"
signal = "gradient"
message = "The loss of step {step} is finite, but gradients became non-finite. The operator {op} was computed at {hit} of {numel} elements where its derivative is infinite or undefined. A torch.where, masked_fill, minimum or the like after it hid them from the loss, not from the gradient."
fix = "Mask the input as well: x = torch.where(mask, x, safe_value) before {op}, then torch.where(mask, f(x), other) after it."
seeks = ["bad_steps: NOT list_contains(signs, 'loss')"]
explains = ["nonfinite-values", "sqrt-at-zero", "division-by-zero", "log-of-zero", "loss-off-course", "loss-scale-collapse", "frozen-by-zero-gradient", "dead-relu"]
[needs]
tables = ["steps", "operators"]
[doc]
what = "The forward pass is finite and the gradient is not. The result of a root, logarithm, quotient, power or exponential goes through a where or masked_fill. It was computed at values where its derivative does not exist. Or the forward pass, run a second time, shows a quotient, root, power or logarithm of exact zeros whose infinities no output holds."
why = "where(mask, f(x), 0) sends the gradient 0 into f for masked elements, and 0 times an infinite derivative is NaN."
not_this = "Operators at such values whose gradients stay finite, and losses that are not finite themselves."
source = "Arithmetic: 0 · inf = NaN."
*/
-- detector: graph
WITH broken AS (
    SELECT s.rank, s.step FROM steps s GROUP BY s.rank, s.step
    HAVING bool_and(isfinite(s.loss))
        AND bool_or(is_nonfinite(s.grad_norm)
            OR is_nonfinite(s.clip_norm)
            OR coalesce(s.skipped_by_scaler, false))
), forward_lost AS (
    SELECT DISTINCT rank, step
    FROM nonfinite
    WHERE kind IN ('output', 'loss') AND nan_count > 0 AND phase <> 'eval'
)
SELECT p.rank, p.step, p.microbatch, p.seq, 'backward' AS phase, p.module, p.op || '.' || p.saved AS tensor,
    p.op,
    greatest(coalesce(p.zero_count, 0), coalesce(p.nan_count, 0) + coalesce(p.inf_count, 0)) AS value,
    CASE
        WHEN p.nan_count + p.inf_count > 0 THEN p.nan_count + p.inf_count
        WHEN p.zero_count > 0 THEN p.zero_count
        END AS hit,
    p.numel, p.dtype, p.shape, p.min, p.max, p.graph_seq
FROM operator_sites p
JOIN broken b ON b.rank = p.rank AND b.step = p.step
JOIN bad_steps s ON s.rank = p.rank AND s.step = p.step AND NOT list_contains(s.signs, 'loss')
WHERE p.masked AND p.trigger = 'risk' AND (p.rank, p.step) NOT IN (SELECT (rank, step) FROM forward_lost)
  AND ((p.rank, p.step, p.op) IN (SELECT (rank, step, regexp_replace(node, 'Backward[0-9]*$', ''))
      FROM first_bad_operator)
      OR NOT EXISTS (
      SELECT 1 FROM operators q
      WHERE q.rank = p.rank
        AND q.step < p.step
        AND q.op = p.op
        AND q.masked
        AND q.module_id IS NOT DISTINCT FROM p.module_id
        AND (q.rank, q.step) NOT IN (SELECT (rank, step) FROM bad_steps)))
ORDER BY p.step, p.rank, p.graph_seq DESC, p.seq
-- detector: rerun
-- infinities that something else than a where took away: run once more, the forward pass shows them
SELECT f.rank, f.step, f.microbatch, NULL::INTEGER AS seq, 'backward' AS phase, f.module,
    f.op || '.' || f.operand AS tensor, f.op, f.inf_count::BIGINT AS value, f.inf_count AS hit, f.numel,
    f.dtype, f.shape, f.operand_min AS min, f.operand_max AS max, f.ordinal::BIGINT AS graph_seq
FROM first_bad_operator f
JOIN lost_in_backward b ON b.rank = f.rank AND b.step = f.step
WHERE f.phase = 'forward' AND f.note IS NULL
  AND regexp_replace(f.op, '_$', '') IN ('div', 'reciprocal', 'rsqrt', 'pow', 'log')
  AND f.operand_zero_count > 0 AND f.inf_count > 0 AND f.nan_count = 0
  AND (f.rank, f.step) NOT IN (SELECT (rank, step) FROM graph)
-- together
ORDER BY step, rank, graph_seq DESC, seq
