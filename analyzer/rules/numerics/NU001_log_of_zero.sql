/*
code = "NU001"
name = "log-of-zero"
severity = "error"
is = ["nonfinite-operator"]
phase = "loss"
signal = "zero_count"
message = "{what_} {zero_count} elements that are exactly 0 (of {numel}, {dtype}, shape {shape}) at step {step}, which gives {gives}, and {harm_}.{rerun}"
fix = "Use the fused form (log_softmax, cross_entropy, binary_cross_entropy_with_logits, logsumexp), or clamp the argument: x.clamp_min(torch.finfo(x.dtype).tiny).log()."
seeks = ["bad_steps: true"]
explains = ["nonfinite-values", "loss-off-course", "sqrt-at-zero"]
[say.what_]
logarithm = "{op} took the logarithm of"
product = "The loss multiplied logarithms by a distribution with"
[say.harm_]
loss_lost = "the loss became non-finite"
gradients_lost = "the loss hid it, but the derivative of that is 1 / 0, and the gradients became non-finite"
[needs]
tables = ["steps"]
[doc]
what = "A logarithm was given exact zeros in the step of the first non-finite value. The loss of that step is non-finite. Or a loss of the form p * (log p - log q) is NaN with finite gradients. There p holds exact zeros. Or the loss hid it, but its gradient is not finite: the derivative 1 / 0 was multiplied by zero."
why = "log(0) is -inf, and its derivative 1/0 is too. Softmax underflows to exact zero sooner than one expects (logit differences beyond 104 in float32)."
not_this = "Zeros that a finite loss shows were masked out, logarithms of negative numbers. Steps in which something else was non-finite first."
source = "Arithmetic; IEEE 754 log(0) = -inf."
*/
-- shared
WITH graph AS (
    SELECT p.rank, p.step, p.microbatch, p.seq,
        CASE WHEN p.module IS NULL
            OR o.phase IN ('loss') THEN coalesce(o.phase, 'loss') ELSE 'forward' END AS phase,
        p.module, p.op || '.' || p.saved AS tensor, p.op, p.zero_count AS value, p.zero_count, p.numel,
            p.dtype, p.shape, p.min, p.max, p.graph_seq,
        coalesce((SELECT f.sentence FROM first_bad_operator f WHERE f.rank = p.rank AND f.step = p.step),
            '') AS rerun
    FROM operator_sites p
    JOIN nonfinite_origin o ON o.rank = p.rank AND o.step = p.step
    JOIN bad_steps b ON b.rank = p.rank AND b.step = p.step AND list_contains(b.signs, 'loss')
    WHERE p.op IN ('Log', 'Log2', 'Log10') AND p.saved = 'self' AND p.zero_count > 0 AND p.nan_count = 0
      AND o.kind IN ('loss', 'activation', 'output')
      -- the logarithm ran in the module whose output was lost first, or after all modules
      AND (p.trigger = 'nonfinite' OR o.kind = 'loss' OR p.module_id IS NOT DISTINCT FROM o.module_id)
), rerun AS (
    -- where autograd does not show the operator (a Function of one's own, checkpointing), running it once
    -- more does
    SELECT f.rank, f.step, f.microbatch, NULL::INTEGER AS seq,
        CASE WHEN f.module IS NULL THEN 'loss' ELSE 'forward' END AS phase, f.module,
        f.op || '.' || f.operand AS tensor, f.op,
        f.operand_zero_count AS value, f.operand_zero_count AS zero_count, f.operand_numel AS numel, f.dtype,
            f.shape, f.operand_min AS min,
        f.operand_max AS max, f.ordinal::BIGINT AS graph_seq, f.sentence AS rerun
    FROM first_bad_operator f
    JOIN bad_steps b ON b.rank = f.rank AND b.step = f.step AND list_contains(b.signs, 'loss')
    WHERE f.phase = 'forward'
      AND f.op IN ('log', 'log_', 'log2', 'log10')
      AND f.operand_zero_count > 0
      AND f.note IS NULL
      AND (f.rank, f.step) NOT IN (SELECT (rank, step) FROM graph)
)
-- detector: of_zero
SELECT *, 'logarithm' AS what_, '-inf' AS gives, 'loss_lost' AS harm_
FROM (SELECT * FROM graph UNION ALL BY NAME SELECT * FROM rerun)
-- detector: times_a_zero_of_a_distribution
WITH product AS (
    -- p * (log p - log q) by hand: log p needs no gradient and leaves no operator, but it is multiplied by
    -- the zeros of p
    SELECT p.rank, p.step, p.microbatch, p.seq, 'loss' AS phase, p.module, p.op || '.' || p.saved AS tensor,
        p.op, p.zero_count AS value, p.zero_count, p.numel, p.dtype, p.shape,
        p.min, p.max, p.graph_seq,
        'product' AS what_, 'loss_lost' AS harm_, '0 * log 0 = NaN' AS gives, '' AS rerun
    FROM operator_sites p
    JOIN nonfinite_origin o ON o.rank = p.rank AND o.step = p.step AND o.kind = 'loss' AND o.nan_count > 0
    JOIN bad_steps b ON b.rank = p.rank AND b.step = p.step AND b.signs = ['loss']
    WHERE p.op = 'Mul'
      AND p.trigger = 'nonfinite'
      AND p.zero_count > 0
      AND p.nan_count + p.inf_count = 0
      AND p.min = 0
      AND p.max <= 1
      AND EXISTS (SELECT 1
          FROM operator_sites l
          WHERE l.rank = p.rank AND l.step = p.step AND l.op = 'LogSoftmax' AND l.shape = p.shape
          AND l.nan_count + l.inf_count = 0 AND l.graph_seq < p.graph_seq)
      AND NOT EXISTS (SELECT 1
          FROM operator_sites l
          WHERE l.rank = p.rank AND l.step = p.step AND (l.nan_count + l.inf_count > 0
              -- its logarithm is lost by itself
              OR l.op = 'KlDiv' AND l.saved = 'target' AND l.min < 0))
      AND (p.rank, p.step) NOT IN (SELECT (rank, step) FROM graph UNION ALL SELECT (rank, step) FROM rerun)
)
SELECT * FROM product
-- detector: in_the_backward
WITH hidden AS (
    -- what was made of -inf was finite again (exp, clamp, a ratio), but the derivative is 1 / 0, and times
    -- zero that is NaN
    SELECT p.rank, p.step, p.microbatch, p.seq, 'backward' AS phase, p.module,
        p.op || '.' || p.saved AS tensor, p.op, p.zero_count AS value, p.zero_count, p.numel, p.dtype,
        p.shape,
        p.min, p.max, p.graph_seq, 'gradients_lost' AS harm_,
        coalesce((SELECT f.sentence FROM first_bad_operator f WHERE f.rank = p.rank AND f.step = p.step),
            '') AS rerun
    FROM operator_sites p
    JOIN bad_steps b ON b.rank = p.rank
        AND b.step = p.step
        AND NOT list_contains(b.signs, 'loss')
        AND list_contains(b.signs, 'gradient')
    WHERE p.op IN ('Log', 'Log2', 'Log10')
      AND p.saved = 'self'
      AND p.zero_count > 0
      AND p.nan_count + p.inf_count = 0
      AND NOT coalesce(p.masked, false)
      AND (p.rank, p.step) IN (SELECT (rank, step) FROM nonfinite_origin WHERE phase = 'backward')
      -- zeros in a finite step show that they are taken out again
      AND NOT EXISTS (FROM operators q
          WHERE q.rank = p.rank
            AND q.step < p.step
            AND q.op = p.op
            AND q.zero_count > 0
            AND q.module_id IS NOT DISTINCT FROM p.module_id
          AND (q.rank, q.step) NOT IN (SELECT (rank, step) FROM bad_steps))
      -- a root or a norm at zero in the same backward does the same: NU002 names it
      AND NOT EXISTS (FROM operators q
          WHERE q.rank = p.rank
            AND q.step = p.step
            AND q.zero_count > 0
            AND q.op IN ('Sqrt', 'Rsqrt', 'Pow', 'Norm', 'LinalgVectorNorm', 'Cdist'))
)
SELECT *, 'logarithm' AS what_, '-inf' AS gives FROM hidden
-- together
ORDER BY step, rank, graph_seq, seq
