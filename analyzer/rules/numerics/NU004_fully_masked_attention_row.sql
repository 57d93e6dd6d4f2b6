/*
code = "NU004"
name = "fully-masked-attention-row"
severity = "error"
phase = "forward"
signal = "full_rows"
message = "Attention in {place_} at step {step}: {full_rows} of {rows} rows have every key masked ({op}.{saved}). The softmax of a row of -inf is NaN, and this module is the first whose output is not finite.{rerun}"
fix = "Leave every query at least one key: its own position, or a dummy key. Or replace NaN rows after the softmax. Check batches with samples that are padding only."
seeks = ["nonfinite_origin: kind IN ('activation', 'output', 'loss')"]
explains = ["outlier-batch", "nonfinite-values", "loss-off-course", "exploding-gradients", "nonfinite-operator"]
[say.place_]
root = "the root module"
module = "module {module}"
[params.sane]
value = 1e15
doc = "Saved operands below this size cannot overflow a product in float32 or bfloat16. So the mask made whole rows of NaN."
source = "arithmetic: 1e15 squared times a million terms is 1e36, below 3.4e38"
[params.half]
value = 64
doc = "The same in float16."
source = "arithmetic: 64 squared is 4096: it takes sixteen such products, all of one sign, to reach 65504"
[needs]
tables = ["steps", "tensor_stats"]
[doc]
what = "The first module with a non-finite output had finite inputs. Inside it a mask covers whole rows, or whole rows of a softmax are NaN although its operands were small."
why = "softmax(-inf, ..., -inf) = 0/0. It needs one sample of padding only, and reaches every weight in the same step."
not_this = "Masks with full rows where the softmax stays finite (large negative fill), and overflow of the scores themselves."
source = "Arithmetic: softmax over an empty set."
*/
WITH looks AS (
    SELECT p.*, o.class_name AS origin_class, o.module AS origin_module, o.tensor AS origin_tensor
    FROM operator_sites p
    JOIN nonfinite_origin o ON o.rank = p.rank
        AND o.step = p.step
        AND o.kind IN ('activation', 'output', 'loss')
    WHERE p.trigger = 'nonfinite'
), softmax AS (
    SELECT rank, step, count(*) AS seen, count(*) FILTER (nan_count > 0) AS lost
    FROM looks WHERE op LIKE '%Softmax%' AND saved = 'result' GROUP BY rank, step
), overflow AS (
    -- operands that were infinite, or so large that the scores could have overflowed
    SELECT DISTINCT l.rank, l.step FROM looks l
    WHERE l.op IN ('Bmm', 'Mm', 'Baddbmm', 'Addmm', 'Mul', 'Div', 'Add') AND l.saved <> 'mask'
      AND (l.inf_count > 0
          OR greatest(abs(l.min), abs(l.max)) > CASE WHEN l.dtype LIKE '%float16%'
              AND l.dtype NOT LIKE '%bfloat16%' THEN $half ELSE $sane END)
)
SELECT l.rank, l.step, l.microbatch, l.seq, 'forward' AS phase, coalesce(l.module, l.origin_module) AS module,
    l.origin_tensor AS tensor,
    if(coalesce(l.module, l.origin_module, '') = '', 'root', 'module') AS place_,
    l.full_rows AS value, l.full_rows, l.rows, l.op, l.saved, l.dtype, l.shape, l.class_name, l.graph_seq,
    coalesce((SELECT f.sentence FROM first_bad_operator f WHERE f.rank = l.rank AND f.step = l.step),
        '') AS rerun
FROM looks l LEFT JOIN softmax s ON s.rank = l.rank AND s.step = l.step
WHERE l.full_rows > 0 AND (
    (l.saved LIKE '%mask%' AND (l.op LIKE '%Attention%' OR s.lost > 0
        OR (s.seen IS NULL
            AND regexp_matches(coalesce(l.class_name, l.origin_class, ''), '(?i)att(n|ention)'))))
    OR (l.op LIKE '%Softmax%' AND l.saved = 'result' AND l.full_rows < l.rows
        AND (l.rank, l.step) NOT IN (SELECT (rank, step) FROM overflow)
        -- a NaN that an operator before it had already was only passed on
        AND NOT EXISTS (SELECT 1
            FROM looks e
            WHERE e.rank = l.rank AND e.step = l.step AND e.nan_count > 0 AND e.graph_seq < l.graph_seq))
)
-- the mask itself is better evidence than what it did
ORDER BY l.step, l.rank, (l.saved NOT LIKE '%mask%'), l.graph_seq, l.seq
