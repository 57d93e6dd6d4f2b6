/*
code = "OP038"
name = "nonfinite-update"
severity = "error"
is = ["nonfinite-values"]
phase = "optimizer"
signal = "lr"
message = "{what_}. The weights are lost from there on."
fix = "{how_}"
seeks = [["param_groups: NOT isfinite(lr)", "nonfinite_origin: kind IN ('parameter', 'update') AND phase = 'optimizer'"]]
explains = ["nonfinite-tensor", "loss-off-course", "python-exception"]
[say.what_]
rate = "At step {step} the learning rate of {optimizer} (optimizer {optimizer_id}, group {group_id}) is {lr}: no number to multiply a gradient with"
arithmetic = "{tensor} became NaN in the update of step {step} ({value} of {numel} elements). Its gradient was finite, and so was the learning rate ({lr}): the arithmetic of {optimizer} makes it"
[say.how_]
rate = "Look at what sets the learning rate. A schedule of 0 warm-up steps or of 0 steps in all divides by zero: divide by max(1, steps)."
arithmetic = "Look at the divisions and roots in {optimizer}. Add an eps to a divisor that is zero where a gradient is, and clamp what stands below a root."
[params.half]
value = 2.98e-8
doc = "Half of the smallest float16 subnormal (5.96e-8): a smaller eps rounds to 0 there, which is optimizer-eps-underflow."
source = "arithmetic: half of 2^-24"
[params.single]
value = 7e-46
doc = "Half of the smallest float32 subnormal (1.4e-45)."
source = "arithmetic: half of 2^-149"
[needs]
tables = ["param_groups"]
columns = ["param_groups.lr"]
[doc]
what = "A learning rate is NaN or infinite. Or weights are NaN after an update, though they, their gradient and the learning rate were finite before."
why = "NaN times anything is NaN. One such step loses all weights that it touches."
not_this = "Weights lost to gradients that are not finite. Weights that have grown beyond what their dtype can hold. An eps that rounds to zero."
source = "Arithmetic: IEEE 754."
*/
-- detector: rate
SELECT rank, step, optimizer_id, group_id, optimizer, lr, lr AS value, 'rate' AS what_, 'rate' AS how_
FROM param_groups
WHERE lr IS NOT NULL AND NOT isfinite(lr)
QUALIFY row_number() OVER (PARTITION BY rank, optimizer_id ORDER BY step, group_id) = 1
-- detector: arithmetic
WITH hit AS (
    SELECT s.rank, s.step, s.microbatch, s.seq, s.tensor_id, s.tensor, s.module, s.dtype, s.numel,
        s.nan_count AS value
    FROM nonfinite_origin f
    JOIN stats s ON s.rank = f.rank AND s.step = f.step AND s.kind = 'parameter' AND s.phase = 'optimizer'
    WHERE f.kind IN ('parameter', 'update')
      AND f.phase = 'optimizer'
      AND s.nan_count > 0
      -- what has grown beyond its dtype is infinite at first
      AND s.inf_count = 0
)
SELECT h.rank, h.step, h.microbatch, h.seq, 'optimizer' AS phase, h.module, h.tensor, h.value, h.numel,
    o.optimizer_id, o.group_id, o.optimizer, o.lr, 'arithmetic' AS what_, 'arithmetic' AS how_
FROM hit h
JOIN parameters p ON p.rank = h.rank AND p.tensor_id = h.tensor_id
JOIN param_groups o ON o.rank = h.rank
    AND o.step = h.step
    AND o.optimizer_id = p.optimizer_id
    AND o.group_id = p.group_id
JOIN tensor_stats g ON g.rank = h.rank AND g.step = h.step AND g.tensor_id = p.gradient_id
WHERE isfinite(o.lr)
  AND g.numel > 0
  AND NOT coalesce(o.eps <= $single OR (o.eps < $half AND h.dtype = 'float16'), false)
GROUP BY ALL
HAVING bool_and(g.nan_count + g.inf_count = 0)
-- together
ORDER BY step, rank, optimizer_id
