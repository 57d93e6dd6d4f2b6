/*
code = "NU020"
name = "infinite-slope"
severity = "error"
phase = "backward"
signal = "max"
message = "The loss of step {step} is finite, but gradients became non-finite. The operator {op} was differentiated at the end of its domain ({edge}; {numel} elements, {dtype}), where its slope is infinite.{rerun}"
fix = "Keep the operand away from the edge: x.clamp(-1 + 1e-6, 1 - 1e-6) before acos, asin or atanh. A clamp to the edge itself does not help. For an angle use atan2 of sine and cosine, which has a slope everywhere."
seeks = ["lost_in_backward: true"]
explains = ["nonfinite-values", "loss-off-course"]
[needs]
tables = ["steps"]
[doc]
what = "The forward pass is finite, and the gradients of the same step are not. The operand of acos, asin or atanh had reached 1 or -1, or that of acosh 1."
why = "d acos(x)/dx = -1 / sqrt(1 - x^2) is infinite at 1, and inf times 0 is NaN. A finite loss hides it until the weights are gone."
not_this = "Operands beyond the edge (domain-error), roots and norms at zero (sqrt-at-zero). The same operator at its edge in an earlier step without harm."
source = "Arithmetic: the derivatives of the inverse functions."
*/
WITH edges AS (
    SELECT rank, step, microbatch, seq, op, saved, module, module_id, numel, dtype, shape, min, max,
        graph_seq, CASE WHEN op = 'Acosh' OR abs(max) >= abs(min) THEN 'x = 1' ELSE 'x = -1' END AS edge
    FROM operator_sites
    WHERE op IN ('Acos', 'Asin', 'Atanh') AND greatest(abs(min), abs(max)) = 1 OR op = 'Acosh' AND min = 1
)
SELECT e.rank, e.step, e.microbatch, e.seq, 'backward' AS phase, e.module, e.op || '.' || e.saved AS tensor,
    e.op, e.edge, e.max AS value,
    e.numel, e.dtype, e.shape, e.min, e.max, e.graph_seq,
    coalesce((SELECT f.sentence FROM first_bad_operator f WHERE f.rank = e.rank AND f.step = e.step),
        '') AS rerun
FROM edges e JOIN lost_in_backward b ON b.rank = e.rank AND b.step = e.step
-- at its edge in an earlier, finite step it did no harm, so it is not the one, unless running it once more
-- has shown that it is
WHERE (e.rank, e.step, e.op) IN (SELECT (rank, step, regexp_replace(node, 'Backward[0-9]*$', ''))
    FROM first_bad_operator)
    OR NOT EXISTS (SELECT 1
        FROM edges q
        WHERE q.rank = e.rank
          AND q.step < e.step
          AND q.op = e.op
          AND q.module_id IS NOT DISTINCT FROM e.module_id
        AND (q.rank, q.step) NOT IN (SELECT (rank, step) FROM bad_steps))
ORDER BY e.step, e.rank, e.graph_seq DESC, e.seq
