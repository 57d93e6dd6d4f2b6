/*
code = "NU005"
name = "division-by-zero"
severity = "error"
phase = "forward"
signal = "zero_count"
message = "{op} had {zero_count} exact zeros in its denominator (of {numel}, {dtype}, shape {shape}) at step {step}, and {origin} was the first to come out non-finite.{rerun}"
fix = "Add an eps inside the denominator or clamp it (x / total.clamp_min(eps)), and handle the case behind it: an empty mask, a batch whose weights sum to zero, a constant feature."
explains = ["nonfinite-tensor", "loss-spike", "divergence", "python-exception"]
[needs]
tables = ["steps"]
[doc]
what = "A division, reciprocal or reciprocal root ran on exact zeros just before the first non-finite value, in the module or loss that put it out."
why = "x/0 is infinite and 0/0 is NaN; a mean over an empty selection is the usual way to it."
not_this = "Zeros in a denominator whose result was selected away and never reached a loss, gradient or weight, and steps in which something was non-finite before the division."
source = "Arithmetic; IEEE 754 division."
*/
SELECT p.rank, p.step, p.microbatch, p.seq, CASE WHEN p.module IS NULL THEN coalesce(o.phase, 'loss') ELSE 'forward' END AS phase,
    p.module, p.op || '.' || p.saved AS tensor, p.op, p.dtype, p.shape, p.numel, p.min, p.max, p.graph_seq, o.kind, CASE WHEN o.kind = 'loss' THEN 'the loss' ELSE o.kind || ' ' || o.tensor END AS origin,
    CASE WHEN p.saved = 'other' THEN p.zero_count ELSE p.inf_count END AS value,
    CASE WHEN p.saved = 'other' THEN p.zero_count ELSE p.inf_count END AS zero_count,
    coalesce((SELECT f.sentence FROM first_bad_operator f WHERE f.rank = p.rank AND f.step = p.step), '') AS rerun
FROM operator_sites p
JOIN nonfinite_origin o ON o.rank = p.rank AND o.step = p.step
WHERE p.trigger = 'nonfinite' AND p.nan_count = 0 AND o.kind IN ('loss', 'activation', 'output')
  AND ((p.op = 'Div' AND p.saved = 'other' AND p.zero_count > 0 AND p.inf_count = 0)
    OR (p.op IN ('Reciprocal', 'Rsqrt') AND p.saved = 'result' AND p.inf_count > 0))
  -- nothing that ran before it had saved anything non-finite
  AND NOT EXISTS (
    SELECT 1 FROM operator_sites e WHERE e.rank = p.rank AND e.step = p.step AND e.trigger = 'nonfinite'
      AND e.graph_seq < p.graph_seq AND e.nan_count + e.inf_count > 0 AND e.dtype LIKE '%float%' AND coalesce(e.max > e.min, true))
ORDER BY p.step, p.rank, p.graph_seq, p.seq
