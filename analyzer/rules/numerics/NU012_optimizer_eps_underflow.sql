/*
code = "NU012"
name = "optimizer-eps-underflow"
severity = "error"
is = ["nonfinite-values"]
phase = "optimizer"
signal = "nonfinite_count"
message = "{tensor} ({dtype}) became non-finite in the update of step {step} ({value} of {numel} elements). All gradients were finite (norm {gradient_norm}). {optimizer} divides by sqrt(v) + eps with eps {eps}, which is not representable or too small in {narrow_}."
fix = "Use a larger eps (1e-4 for float16 state), or keep weights and optimizer state in float32."
seeks = ["nonfinite_origin: kind IN ('parameter', 'update') AND phase = 'optimizer'"]
explains = ["nonfinite-tensor", "loss-off-course", "python-exception"]
[say.narrow_]
weight = "{dtype}"
state = "its optimizer state (float16)"
[params.half]
value = 2.98e-8
doc = "Half of the smallest float16 subnormal (5.96e-8): a smaller eps rounds to 0 there."
source = "arithmetic: half of 2^-24"
[params.single]
value = 7e-46
doc = "Half of the smallest float32 subnormal (1.4e-45)."
source = "arithmetic: half of 2^-149"
[needs]
tables = ["steps", "tensor_stats", "param_groups"]
[doc]
what = "Weights are finite before a step and non-finite after it, and gradients are finite. The optimizer divides by a root plus an eps. This eps is 0 in the dtype of the weight, or of its optimizer state."
why = "A gradient that is exactly zero, or whose square underflows, gives 0/0 as soon as eps has been rounded away."
not_this = "Weights hit by non-finite gradients, optimizers without eps, an eps that the dtype can hold."
source = "Arithmetic; IEEE 754 subnormals of the dtype."
*/
WITH hit AS (
    SELECT s.rank, s.step, s.microbatch, s.seq, s.tensor_id, s.tensor, s.module, s.module_id, s.dtype,
        s.numel, s.nan_count + s.inf_count AS value
    FROM nonfinite_origin f
    JOIN stats s ON s.rank = f.rank AND s.step = f.step AND s.kind = 'parameter' AND s.phase = 'optimizer'
    WHERE s.nan_count + s.inf_count > 0 AND f.kind IN ('parameter', 'update') AND f.phase = 'optimizer'
), state AS (
    -- weights in float32 whose moments an optimizer keeps in half precision
    SELECT DISTINCT o.rank, o.parameter_id
    FROM optimizer_state_tensors o
    JOIN tensors t ON t.rank = o.rank AND t.tensor_id = o.tensor_id
    WHERE t.dtype = 'float16'
)
SELECT h.rank, h.step, h.microbatch, h.seq, 'optimizer' AS phase, h.module, h.tensor, h.value, h.numel,
    h.dtype,
    if(h.dtype <> 'float16' AND o.parameter_id IS NOT NULL, 'state', 'weight') AS narrow_,
    g.optimizer, g.eps, g.lr, s.grad_norm AS gradient_norm
FROM hit h
JOIN parameters p ON p.rank = h.rank AND p.tensor_id = h.tensor_id
JOIN param_groups g ON g.rank = h.rank
    AND g.step = h.step
    AND g.optimizer_id = p.optimizer_id
    AND g.group_id = p.group_id
JOIN steps s ON s.rank = h.rank AND s.step = h.step AND s.optimizer_id IS NOT DISTINCT FROM p.optimizer_id
LEFT JOIN state o ON o.rank = h.rank AND o.parameter_id = h.tensor_id
WHERE isfinite(s.grad_norm) AND g.eps IS NOT NULL AND isfinite(g.lr)
  AND (g.eps <= $single OR ((h.dtype = 'float16' OR o.parameter_id IS NOT NULL) AND g.eps < $half))
ORDER BY h.step, h.rank, h.seq
