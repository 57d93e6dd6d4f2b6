/*
code = "NU002"
name = "sqrt-at-zero"
severity = "error"
is = ["nonfinite-operator"]
phase = "backward"
signal = "zero_count"
message = "The loss of step {step} is finite, but gradients became non-finite. The operator {op} was differentiated at {zero_count} exact zeros (of {numel}, {dtype}), where its derivative is infinite.{rerun}"
fix = "Add a small eps inside the root: (x.square().sum(-1) + eps).sqrt(), (x.var(-1) + eps).sqrt(), torch.linalg.vector_norm (its gradient at zero is 0). Leave out zero vectors and constant groups."
seeks = ["lost_in_backward: true"]
explains = ["nonfinite-values", "loss-off-course"]
[needs]
tables = ["steps"]
[doc]
what = "The forward pass is finite, and the gradients of the same step are not. A square root (or reciprocal root, norm, fractional power) had reached exactly zero."
why = "d sqrt(x)/dx = 1/(2 sqrt(x)) is infinite at 0 and inf times 0 is NaN. A finite loss hides it until the weights are gone."
not_this = "Roots at zero whose gradients stay finite (torch defines the subgradient of norm and std there as 0). Steps whose loss is already non-finite, and steps that a GradScaler skipped for an overflow."
source = "Arithmetic: derivative of the square root."
*/
SELECT p.rank, p.step, p.microbatch, p.seq, 'backward' AS phase, p.module, p.op || '.' || p.saved AS tensor,
    p.op, p.zero_count AS value,
    p.zero_count, p.numel, p.dtype, p.shape, p.min, p.max, p.graph_seq,
    coalesce((SELECT f.sentence FROM first_bad_operator f WHERE f.rank = p.rank AND f.step = p.step),
        '') AS rerun
FROM operator_sites p JOIN lost_in_backward b ON b.rank = p.rank AND b.step = p.step
WHERE p.op IN ('Sqrt', 'Rsqrt', 'Pow', 'Norm', 'LinalgVectorNorm', 'Cdist') AND p.zero_count > 0
  AND (p.op NOT IN ('Norm', 'LinalgVectorNorm', 'Cdist') OR NOT EXISTS (
      SELECT 1
      FROM operators q
      WHERE q.rank = p.rank AND q.step = p.step AND q.zero_count > 0 AND q.op IN ('Sqrt', 'Rsqrt', 'Pow')))
  -- the same operator at zero in an earlier, finite step shows that it is not the one, unless running it once
  -- more has shown that it is: what
  -- comes ahead of it may have kept its NaN back so far, as a ReLU does whose output is zero
  AND ((p.rank, p.step, p.op) IN (SELECT (rank, step, regexp_replace(node, 'Backward[0-9]*$', ''))
      FROM first_bad_operator)
      OR NOT EXISTS (
      SELECT 1 FROM operators q
      WHERE q.rank = p.rank
        AND q.step < p.step
        AND q.op = p.op
        AND q.module_id IS NOT DISTINCT FROM p.module_id
        AND q.zero_count > 0 AND (q.rank, q.step) NOT IN (SELECT (rank, step) FROM bad_steps)))
ORDER BY p.step, p.rank, p.graph_seq DESC, p.seq
