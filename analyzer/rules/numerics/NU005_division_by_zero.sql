/*
code = "NU005"
name = "division-by-zero"
severity = "error"
phase = "forward"
signal = "zero_count"
message = "At step {step} {op_} had {zero_count} exact zeros in its denominator (of {numel}, {dtype}, shape {shape}). The first to come out non-finite was {origin_}.{rerun}"
fix = "Add an eps inside the denominator or clamp it (x / total.clamp_min(eps)). Handle the case behind it: an empty mask, a batch whose weights sum to zero, a constant feature."
seeks = ["nonfinite_origin: kind IN ('loss', 'activation', 'output', 'activation_gradient', 'gradient')"]
explains = ["nonfinite-tensor", "loss-off-course", "python-exception"]
[say.op_]
divides = "{op}"
division_of_factor = "the division that made a factor of {op}"
seen_again = "the division at {source} ({code}), which made a factor of {op} and was seen at it again at step {again},"
spread_of_one = "the spread of one number at {source} ({code}), seen again at step {again}, which made a factor of {op} and divides by n - 1,"
standardisation_of_factor = "the standardisation that made a factor of {op}"
[say.origin_]
loss = "the loss"
tensor = "{kind} {lost}"
[params.ordinary]
value = 1e30
doc = "Largest finite element of a factor beside which an infinite one is no overflow (float32 ends at 3.4e38)."
source = "arithmetic: eight orders of magnitude below where float32 ends"
[params.bound]
value = 1.001
unit = "times"
doc = "How far beyond (n - 1) / sqrt(n), the largest that a standardised number among n can be, for rounding."
source = "arithmetic: a thousandth is more than the rounding of float16"
[params.group]
value = 3
unit = "numbers"
doc = "Numbers of a group that was standardised."
source = "arithmetic: of two the result is known"
[needs]
tables = ["steps"]
[doc]
what = "A division, reciprocal or reciprocal root ran on exact zeros just before the first non-finite value. It did so in the module or loss that put that value out. Or a positive factor that the graph did not compute holds infinities beside numbers of ordinary size. Or it holds whole rows (or groups) of NaN beside standardised numbers. Or the same code, looked at in the steps after the loss was lost, divides by zero again outside any graph and gives a factor of that shape."
why = "x/0 is infinite and 0/0 is NaN; a mean over an empty selection is the usual way to it."
not_this = "Zeros in a denominator whose result was selected away and never reached a loss, gradient or weight. Steps in which something was non-finite before the division."
source = "Arithmetic; IEEE 754 division."
*/
-- detector: graph
SELECT p.rank, p.step, p.microbatch, p.seq,
    CASE WHEN p.module IS NULL THEN coalesce(o.phase, 'loss') ELSE 'forward' END AS phase,
    p.module, p.op || '.' || p.saved AS tensor, p.op, p.dtype, p.shape, p.numel, p.min, p.max,
    p.graph_seq, o.kind, o.tensor AS lost, 'divides' AS op_,
    CASE WHEN p.saved = 'other' THEN p.zero_count ELSE p.inf_count END AS value,
    CASE WHEN p.saved = 'other' THEN p.zero_count ELSE p.inf_count END AS zero_count,
    coalesce((SELECT f.sentence FROM first_bad_operator f WHERE f.rank = p.rank AND f.step = p.step),
        '') AS rerun
FROM operator_sites p
JOIN nonfinite_origin o ON o.rank = p.rank AND o.step = p.step
WHERE p.trigger = 'nonfinite' AND p.nan_count = 0 AND o.kind IN ('loss', 'activation', 'output')
  AND ((p.op = 'Div' AND p.saved = 'other' AND p.zero_count > 0 AND p.inf_count = 0)
    OR (p.op IN ('Reciprocal', 'Rsqrt') AND p.saved = 'result' AND p.inf_count > 0))
  -- nothing that ran before it had saved anything non-finite
  AND NOT EXISTS (
    SELECT 1 FROM operator_sites e WHERE e.rank = p.rank AND e.step = p.step AND e.trigger = 'nonfinite'
      AND e.graph_seq < p.graph_seq
        AND e.nan_count + e.inf_count > 0
        AND e.dtype LIKE '%float%'
        AND coalesce(e.max > e.min, true))
-- detector: rerun
-- where autograd does not show the operator (a Function of one's own, checkpointing, a degree or count
-- that needs no gradient), running it once more does; what follows it may be finite again, as a sigmoid of
-- infinity is, and its derivative is not
SELECT f.rank, f.step, f.microbatch, NULL::INTEGER AS seq,
    CASE WHEN f.phase = 'backward' THEN f.phase WHEN f.module IS NULL THEN 'loss' ELSE 'forward' END AS phase,
    f.module,
    f.op || '.' || f.operand AS tensor, f.op,
    f.dtype, f.shape, f.operand_numel AS numel, f.operand_min AS min, f.operand_max AS max,
    f.ordinal::BIGINT AS graph_seq, o.kind, o.tensor AS lost, 'divides' AS op_,
    f.operand_zero_count AS value, f.operand_zero_count AS zero_count, f.sentence AS rerun
FROM first_bad_operator f
JOIN nonfinite_origin o ON o.rank = f.rank AND o.step = f.step
WHERE (f.phase = 'forward' AND o.kind IN ('loss', 'activation', 'output')
    OR f.phase = 'backward' AND o.kind IN ('activation_gradient', 'gradient')
      AND f.node LIKE 'Div%' AND f.op = 'div' AND f.operand = 'other')
  AND f.op IN ('div', 'div_', 'reciprocal', 'reciprocal_', 'rsqrt', 'rsqrt_', 'pow', 'pow_')
  AND f.operand_zero_count > 0
  AND (f.op NOT LIKE 'pow%' OR (f.inf_count > 0 AND f.nan_count = 0))
  AND f.note IS NULL
  AND (f.rank, f.step) NOT IN (SELECT (rank, step) FROM graph)
-- detector: factor
-- a factor that the graph did not compute, such as a weight of a class or a sample: all of it is positive
-- and of ordinary size but for
-- infinities, which no overflow reaches from there and 1/0 does
SELECT p.rank, p.step, p.microbatch, p.seq,
    CASE WHEN p.module IS NULL THEN coalesce(o.phase, 'loss') ELSE 'forward' END AS phase,
    p.module, p.op || '.' || p.saved AS tensor, p.op,
    p.dtype, p.shape, p.numel, p.min, p.max, p.graph_seq, o.kind, o.tensor AS lost,
    'division_of_factor' AS op_, p.inf_count AS value, p.inf_count AS zero_count, '' AS rerun
FROM operator_sites p
JOIN nonfinite_origin o ON o.rank = p.rank AND o.step = p.step
WHERE p.trigger = 'nonfinite'
  AND (p.op = 'Mul' OR p.op LIKE 'NllLoss%' AND p.saved = 'weight')
  AND o.kind IN ('loss', 'activation', 'output')
  AND p.nan_count = 0
    AND p.inf_count > 0
    AND p.inf_count < p.numel
    AND p.min > 0
    AND p.max < $ordinary
    AND p.dtype NOT LIKE '%16'
  AND NOT EXISTS (
    SELECT 1 FROM operator_sites e WHERE e.rank = p.rank AND e.step = p.step AND e.trigger = 'nonfinite'
      AND e.graph_seq < p.graph_seq AND e.nan_count + e.inf_count > 0)
  AND (p.rank, p.step) NOT IN (SELECT (rank, step) FROM graph)
    AND (p.rank, p.step) NOT IN (SELECT (rank, step) FROM rerun)
-- detector: groups_
-- a factor that the graph did not compute, such as the advantages of groups of answers: whole rows of it
-- are NaN, and the others hold
-- nothing beyond what a number standardised among as many can be, so a row of equal numbers was divided
-- by its spread of zero
-- (a flat one is taken to be made of groups as large as the numbers of elements and of NaN allow)
SELECT p.rank, p.step, p.microbatch, p.seq,
    CASE WHEN p.module IS NULL THEN coalesce(o.phase, 'loss') ELSE 'forward' END AS phase,
    p.module, p.op || '.' || p.saved AS tensor, p.op, p.dtype, p.shape,
    p.numel // p.size AS numel, p.min, p.max, p.graph_seq, o.kind, o.tensor AS lost,
    'standardisation_of_factor' AS op_, p.nan_count // p.size AS value, p.nan_count // p.size AS zero_count,
    '' AS rerun
FROM (SELECT *, CASE WHEN len(shape) = 1 THEN gcd(numel, nan_count) ELSE shape[-1] END AS size
    FROM operator_sites) p
JOIN nonfinite_origin o ON o.rank = p.rank AND o.step = p.step
WHERE p.trigger = 'nonfinite' AND p.op = 'Mul' AND o.kind = 'loss' AND p.size >= $group
  AND p.nan_count > 0
    AND p.nan_count < p.numel
    AND p.nan_count % p.size = 0
    AND p.inf_count = 0
    AND p.min < 0
    AND p.max > 0
  AND greatest(-p.min, p.max) <= $bound * (p.size - 1) / sqrt(p.size)
  AND NOT EXISTS (
    SELECT 1 FROM operator_sites e WHERE e.rank = p.rank AND e.step = p.step AND e.trigger = 'nonfinite'
      AND e.graph_seq < p.graph_seq AND e.nan_count + e.inf_count > 0)
  AND (p.rank, p.step) NOT IN (SELECT (rank, step) FROM graph)
    AND (p.rank, p.step) NOT IN (SELECT (rank, step) FROM rerun)
    AND (p.rank, p.step) NOT IN (SELECT (rank, step) FROM factor)
-- detector: outside
-- the factor was made without a graph, and the same code was seen to lose numbers again in the steps after
SELECT p.rank, p.step, p.microbatch, p.seq,
    CASE WHEN p.module IS NULL THEN coalesce(o.phase, 'loss') ELSE 'forward' END AS phase,
    p.module, p.op || '.' || p.saved AS tensor, p.op,
    p.dtype, p.shape, if(a.zeros > 0, a.denominator_numel, 1) AS numel, p.min, p.max, p.graph_seq,
    o.kind, o.tensor AS lost,
    CASE WHEN a.op IN ('std', 'var') THEN 'spread_of_one' ELSE 'seen_again' END AS op_,
    coalesce(a.zeros, 1) AS value, coalesce(a.zeros, 1) AS zero_count, '' AS rerun, a.source, a.code,
    a.step AS again
FROM operator_sites p
JOIN nonfinite_origin o ON o.rank = p.rank AND o.step = p.step
JOIN lost_outside_graph a ON a.rank = p.rank AND a.step > p.step
WHERE p.trigger = 'nonfinite' AND p.op = 'Mul' AND o.kind = 'loss'
  AND (a.zeros > 0 OR a.op IN ('std', 'var') AND a.operand_numel = 1)
  AND ((p.nan_count > 0 AND a.nan_count > 0) OR (p.inf_count > 0 AND a.inf_count > 0))
  AND (len(a.shape) = len(p.shape) OR a.numel = 1)
  AND NOT EXISTS (
    SELECT 1 FROM operator_sites e WHERE e.rank = p.rank AND e.step = p.step AND e.trigger = 'nonfinite'
      AND e.graph_seq < p.graph_seq AND e.nan_count + e.inf_count > 0)
  AND (p.rank, p.step) NOT IN (SELECT (rank, step) FROM graph)
    AND (p.rank, p.step) NOT IN (SELECT (rank, step) FROM rerun)
    AND (p.rank, p.step) NOT IN (SELECT (rank, step) FROM factor)
    AND (p.rank, p.step) NOT IN (SELECT (rank, step) FROM groups_)
QUALIFY row_number() OVER (PARTITION BY p.rank, p.step ORDER BY p.graph_seq, a.step) = 1
-- together
SELECT *, if(kind = 'loss', 'loss', 'tensor') AS origin_ FROM found
ORDER BY step, rank, graph_seq, seq
