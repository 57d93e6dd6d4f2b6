/*
code = "NU006"
name = "fp16-overflow"
severity = "error"
is = ["nonfinite-operator"]
phase = "forward"
signal = "abs_max"
message = "float16 tensor {tensor} overflowed at step {step}: {inf_count} infinite and {nan_count} NaN of {numel} elements{largest_}{before_}{operand_}. float16 ends at 65504.{rerun}"
fix = "Run this module in bfloat16 or float32 (autocast(enabled=False) around it), or scale its input down. Find out why its values had grown."
seeks = [
    [
        "nonfinite_origin: kind IN ('activation', 'output', 'loss', 'activation_gradient', 'gradient')",
        "tensors: kind = 'activation' AND dtype = 'float16'",
    ],
]
explains = ["nonfinite-values", "loss-off-course", "exploding-gradients", "no-optimizer-step", "dead-relu", "frozen-by-zero-gradient", "loss-scale-collapse"]
[say.largest_]
largest = "; largest finite element {value:.5g}"
finite_before = "; all were finite before, at most {largest_before:.5g}; numbers up to {operand:.5g} had come in"
[say.before_]
known = ", {last_before:.5g} in the step before it"
[say.operand_]
known = ", largest half operand inside the module {operand:.5g}"
[params.near]
value = 4096.0
doc = "A NaN alone counts as overflow where the tensor or an operand had reached this size: its square is beyond 65504."
source = "arithmetic: 4096 squared is 256 times 65504"
[params.largest]
value = 65504
doc = "Largest finite number of float16."
source = "arithmetic: (2 - 2^-10) 2^15"
[params.exponent]
value = 11
doc = "Largest half operand below which infinities come from elsewhere, such as a target: no sum, product or exponential makes one."
source = "arithmetic: ln(65504) is 11.09"
[params.looks]
value = 3
unit = "looks"
doc = "Looks at the tensor before."
source = "convention: of this project, fewer do not show what is usual"
[needs]
tables = ["steps", "tensor_stats"]
[doc]
what = "The first non-finite tensor of the first bad step is float16, or was computed from float16 inside its module. It holds infinities, or its history or operands were large enough to overflow. Or its operators, run a second time, show an infinite product or sum although nothing before it was infinite. Or a module puts out infinities for the first time, after larger numbers than ever had come in. That counts even if nothing after it shows them."
why = "float16 has five exponent bits. The largest finite number is 65504, and a product of two numbers above 256 is beyond it."
not_this = "Infinities in bfloat16 or float32, masks of -inf. Logarithms of zero and fully masked rows in half precision, overflowing gradients that a GradScaler skips."
source = "IEEE 754 binary16: largest finite number 65504."
*/
-- detector: lost_in_half
WITH origin AS (
    SELECT *
    FROM nonfinite_origin
    WHERE kind IN ('activation', 'output', 'loss', 'activation_gradient', 'gradient')
), history AS (
    SELECT o.rank, max(greatest(abs(s.min), abs(s.max))) AS largest_before,
        arg_max(greatest(abs(s.min), abs(s.max)), s.step) AS last_before
    FROM origin o
    JOIN tensor_stats s ON s.rank = o.rank AND s.tensor_id = o.tensor_id AND s.step < o.step
    GROUP BY o.rank
), half AS (
    SELECT p.rank, p.step, max(greatest(abs(p.min), abs(p.max))) AS operand, sum(p.inf_count) AS infinite,
        max(CASE WHEN p.op IN ('Mul', 'Pow') THEN greatest(abs(p.min), abs(p.max)) END) AS factor_,
        min(p.graph_seq) AS graph_seq, arg_min(p.op, p.graph_seq) AS op
    FROM operators p JOIN origin o ON o.rank = p.rank AND o.step = p.step
    WHERE p.trigger = 'nonfinite' AND p.dtype = 'float16' AND p.saved <> 'mask' GROUP BY p.rank, p.step
), replayed AS (
    -- from finite numbers none of these makes an infinity but by a result that is beyond the type
    SELECT rank, step, op FROM first_bad_operator
    WHERE phase = 'forward' AND dtype = 'float16' AND inf_count > 0
      AND regexp_replace(op, '_$', '') IN ('mm', 'bmm', 'addmm', 'baddbmm', 'addbmm', 'mv', 'addmv', 'dot',
          'linear', 'matmul', 'convolution', 'mul', 'square', 'sum', 'cumsum', 'exp')
), otherwise AS (
    SELECT DISTINCT rank, step FROM operators
    WHERE (saved LIKE '%mask%' AND full_rows > 0) OR (op IN ('Log', 'Log2', 'Log10') AND zero_count > 0)
       OR (op = 'Div' AND saved = 'other' AND zero_count > 0)
)
SELECT o.rank, o.step, o.microbatch, o.seq, o.phase, o.module, o.tensor, o.kind,
    greatest(abs(o.min), abs(o.max)) AS value, o.nan_count, o.inf_count, o.numel, o.shape, o.class_name,
    h.largest_before, h.last_before, x.operand,
    if(value IS NULL, NULL, 'largest') AS largest_, if(h.last_before IS NULL, NULL, 'known') AS before_,
    if(x.operand IS NULL, NULL, 'known') AS operand_,
    coalesce((SELECT f.sentence FROM first_bad_operator f WHERE f.rank = o.rank AND f.step = o.step),
        '') AS rerun
FROM origin o
LEFT JOIN history h ON h.rank = o.rank
LEFT JOIN half x ON x.rank = o.rank AND x.step = o.step
LEFT JOIN replayed r ON r.rank = o.rank AND r.step = o.step
LEFT JOIN (SELECT rank, step, bool_or(loss_scale IS NOT NULL) AS scaled
    FROM steps
    GROUP BY rank, step) sc ON sc.rank = o.rank
    AND sc.step = o.step
WHERE (o.rank, o.step) NOT IN (SELECT (rank, step) FROM otherwise)
  AND ((o.dtype = 'float16'
      AND (o.inf_count > 0 OR h.largest_before >= $near OR x.operand >= $near OR x.infinite > 0))
    OR (o.kind IN ('activation', 'output', 'loss') AND x.infinite > 0 AND x.operand >= $exponent)
    OR (o.kind IN ('activation', 'output', 'loss') AND x.operand >= $near)
    OR (o.kind IN ('activation', 'output', 'loss') AND r.op IS NOT NULL)
    -- a product of two numbers of this size, the result of which autograd does not keep
    OR (o.kind IN ('activation', 'output', 'loss') AND o.inf_count > 0 AND x.factor_ > sqrt($largest)))
  AND (o.kind NOT IN ('gradient', 'activation_gradient')
      OR (o.inf_count > 0 AND NOT coalesce(sc.scaled, false)))
-- detector: absorbed_by_a_division
WITH halves AS (
    SELECT s.rank, s.step, s.microbatch, s.seq, t.tensor_id, t.tensor_name AS tensor, t.kind, t.shape,
        m.module, m.class_name, s.nan_count, s.inf_count, s.numel,
        greatest(abs(s.min), abs(s.max)) AS size,
        count(*) OVER w AS looks, max(s.nan_count + s.inf_count) OVER w AS nonfinite_before,
            max(greatest(abs(s.min), abs(s.max))) OVER w AS largest_before,
        last_value(greatest(abs(s.min), abs(s.max))) OVER w AS last_before,
        -- the largest number that entered it
        max(greatest(abs(s.min), abs(s.max))) OVER (PARTITION BY s.rank, s.step, s.microbatch
            ORDER BY s.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS operand
    FROM tensor_stats s
    JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id
    JOIN modules m ON m.rank = t.rank AND m.module_id = t.module_id
    WHERE t.kind = 'activation' AND t.dtype = 'float16' AND s.phase = 'forward'
    WINDOW w AS (PARTITION BY s.rank, s.tensor_id
        ORDER BY s.step, s.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
), absorbed AS (
    -- a division by infinity gives zero: nothing that follows shows it
    SELECT * FROM halves
    WHERE inf_count > 0
      AND nan_count = 0
      AND looks >= $looks
      AND nonfinite_before = 0
      AND operand > sqrt($largest)
      AND NOT EXISTS (SELECT 1 FROM bad_steps b WHERE b.rank = halves.rank AND b.step <= halves.step)
    QUALIFY row_number() OVER (PARTITION BY rank ORDER BY step, microbatch, seq) = 1
)
SELECT rank, step, microbatch, seq, 'forward' AS phase, module, tensor, kind,
    coalesce(size, operand) AS value, nan_count, inf_count, numel, shape, class_name,
    largest_before, last_before, operand, 'finite_before' AS largest_, '' AS rerun
FROM absorbed
-- together
ORDER BY step, rank
