/*
code = "NU007"
name = "mask-fill-overflow"
severity = "error"
phase = "forward"
signal = "fill"
message = "{said_}."
fix = "Take the fill from the dtype of the scores: scores.masked_fill(mask, torch.finfo(scores.dtype).min), or compute the scores in float32. And leave every row at least one key."
seeks = [
    [
        "exits: exception_message LIKE '%cannot be converted to type%alf without overflow%'",
        "nonfinite_origin: kind IN ('activation', 'output', 'loss')",
    ],
]
explains = ["fully-masked-attention-row", "nonfinite-values", "shape-or-dtype-error", "fp16-overflow", "loss-off-course"]
[say.place_]
root = "the root module"
module = "module {module}"

[say.said_]
fill_refused = "At step {step} a fill that float16 cannot hold was refused: {exception}"
rows_lost = "At step {step} {full_rows} of {rows} rows of a float16 softmax in {place_} are NaN: the mask that was added to its scores is -inf in float16"
[params.small]
value = 64.0
doc = "Operands of the scores below this size cannot overflow their product in float16, so infinite scores are the mask's doing."
source = "arithmetic: 64 squared is 4096: it takes sixteen such products, all of one sign, to reach 65504"
[params.shown]
value = 160
unit = "characters"
doc = "Length of a message that is shown."
source = "convention: of this project, as much as two lines show"
[needs]
tables = ["steps"]
[doc]
what = "masked_fill was refused because the number does not fit into float16. Or whole rows of a float16 softmax are NaN without a boolean mask, although its operands were small. Then an added mask of −1e9 has become −inf."
why = "float16 ends at −65504: −1e9 or finfo(float32).min is −inf in it, and a row of −inf has no softmax."
not_this = "Boolean masks filled with −inf (fully-masked-attention-row), scores that overflow themselves, bfloat16."
source = "IEEE 754 binary16; the message is torch's own."
*/
WITH refused AS (
    SELECT coalesce(rank, 0) AS rank, step, microbatch, phase, module, NULL::VARCHAR AS tensor,
        left(exception_message, $shown) AS exception, 'fill_refused' AS said_, 0 AS order_
    FROM exits WHERE exception_message LIKE '%cannot be converted to type%alf without overflow%'
), looks AS (
    SELECT p.*, o.tensor AS origin_tensor, o.module AS origin_module
    FROM operator_sites p
    JOIN nonfinite_origin o ON o.rank = p.rank
        AND o.step = p.step
        AND o.kind IN ('activation', 'output', 'loss')
    WHERE p.trigger = 'nonfinite'
), lost AS (
    SELECT l.rank, l.step, l.microbatch, 'forward' AS phase, coalesce(l.module, l.origin_module) AS module,
        l.origin_tensor AS tensor, l.full_rows, l.rows,
        if(coalesce(l.module, l.origin_module, '') = '', 'root', 'module') AS place_,
        'rows_lost' AS said_, l.graph_seq AS order_
    FROM looks l
    WHERE l.dtype = 'float16'
      AND l.op LIKE '%Softmax%'
      AND l.saved = 'result'
      AND l.full_rows > 0
      AND l.full_rows < l.rows
      AND NOT EXISTS (SELECT 1 FROM looks m WHERE m.rank = l.rank AND m.step = l.step AND m.dtype = 'bool')
      AND NOT EXISTS (SELECT 1
          FROM looks e
          WHERE e.rank = l.rank AND e.step = l.step AND e.graph_seq < l.graph_seq
          AND (e.nan_count > 0 OR e.inf_count > 0 OR greatest(abs(e.min), abs(e.max)) > $small))
)
SELECT *, 1.0 AS value
FROM (SELECT * FROM refused UNION ALL BY NAME SELECT * FROM lost)
ORDER BY step, rank, order_
