/*
code = "DA001"
name = "nonfinite-input"
severity = "error"
phase = "data"
signal = "nonfinite_count"
message = "In step {step} {what_} held {held_} (shape {shape}) before any module had computed one; {reached_} followed in the same step."
fix = "Find the sample behind {tensor} at step {step}, or the code that computes it, and guard it. Do not divide by a zero std, and do not parse empty cells to NaN. To keep the training alive, use torch.nan_to_num or drop the sample."
seeks = [
    [
        "tensor_stats: nan_count > 0 OR inf_count > 0",
        "exits: status = 'exception' AND exception_message IS NOT NULL",
        "operators: outside",
    ],
]
explains = ["outlier-batch", "nonfinite-values", "nonfinite-operator", "fully-masked-attention-row", "exploding-gradients", "loss-off-course", "lr-too-high", "all-targets-ignored"]
[say.what_]
entering = "what the first operator of the graph ({op}) was given from outside"
field = "field {name} of the batch"
target = "the target that the loss was given"
model_input = "the model's input {name}"
argument = "argument {name} of the model"
[say.reached_]
bad_step = "a non-finite {signs}"
no_backward = "no backward but the next batch ({batches} times in this run)"
exception = "the exception"
[say.held_]
counted = "{nan_count} NaN and {inf_count} infinite elements"
unknown = "elements that are not finite"
[params.often]
value = 3
unit = "batches"
doc = "Batches left out for it, from which it is no accident that the script was made for."
source = "convention: of this project, one or two come by chance, a third shows that the script expects them"
[params.few]
value = 0.1
unit = "of the batches"
doc = "Share of the batches that may break the habit."
source = "convention: of this project, one of ten"
[needs]
tables = ["steps", "tensor_stats"]
[doc]
what = "The first non-finite tensor of the first bad step is data. It is a field of the batch, an input of the model or a target of the loss. Or inputs of a model were not finite. The script took the next batch without a backward of that model. This is a warning where it happened less than three times. Or the script ended with an exception about non-finite values, before any step was bad. The exception came from a model whose own argument held some."
why = "Whatever is computed from it is lost, and one optimizer step carries it into every weight."
not_this = "Infinite masks (only 0 and -inf). NaN markers in a field that the run survived in this or earlier steps."
source = "Arithmetic: a non-finite operand gives a non-finite result."
*/
WITH forwards AS (
    -- one row for each forward of a model: the last of a microbatch is the one that backward belongs to
    SELECT s.rank, s.step, s.microbatch, s.seq, s.tensor_id, t.tensor_name, t.shape, s.nan_count, s.inf_count,
        s.min, s.max,
        s.nan_count > 0 OR (s.inf_count > 0 AND (s.max > s.min OR s.max IS NULL)) AS lost,
        lead(s.seq) OVER (PARTITION BY s.rank, s.step, s.microbatch, s.tensor_id
            ORDER BY s.seq) IS NULL AS used
    FROM tensor_stats s JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id
    WHERE t.kind = 'input' AND s.phase = 'data' AND s.nan_count IS NOT NULL
      -- a tensor that never held any has nothing to sort
      AND (s.rank, s.tensor_id) IN (SELECT (n.rank, n.tensor_id)
          FROM tensor_stats n
          WHERE n.nan_count > 0 OR n.inf_count > 0)
), left_out AS (
    SELECT rank, tensor_id, count(*) FILTER (lost AND NOT used) AS batches,
        arg_min(forwards, (step, seq)) FILTER (lost AND NOT used) AS at
    FROM forwards
    GROUP BY rank, tensor_id
    -- finite ones are not left out, and others that are not finite are not used
    HAVING batches >= 1
        AND count(*) FILTER (NOT lost AND NOT used) <= $few * batches
        AND count(*) FILTER (lost AND used) <= $few * batches
)
SELECT o.rank, o.step, o.microbatch, o.seq, o.phase,
    coalesce(o.module, '') AS module, coalesce(b.field, o.tensor) AS tensor, o.kind,
    o.nan_count, o.inf_count, o.nan_count + o.inf_count AS value, coalesce(b.shape, o.shape) AS shape, o.min,
    o.max, b.fingerprint, coalesce(b.field, o.tensor) AS name, array_to_string(s.signs, ' and ') AS signs,
    CASE WHEN o.kind = 'target' AND o.phase = 'loss' THEN 'target' ELSE 'field' END AS what_,
    'bad_step' AS reached_, 'counted' AS held_, 'error' AS severity
FROM nonfinite_origin o
JOIN bad_steps s ON s.rank = o.rank AND s.step = o.step
LEFT JOIN batches b ON b.rank = o.rank AND b.step = o.step AND b.seq = o.seq
WHERE o.kind IN ('input', 'target')
  -- a float mask of -inf and one finite value is wanted
  AND (o.nan_count > 0 OR o.max > o.min OR o.max IS NULL)
UNION ALL BY NAME
SELECT l.rank, l.at.step, l.at.microbatch, l.at.seq, 'data' AS phase, '' AS module,
    l.at.tensor_name AS tensor, 'input' AS kind, l.at.nan_count, l.at.inf_count,
    l.at.nan_count + l.at.inf_count AS value, l.at.shape, l.at.min, l.at.max, l.batches,
    regexp_replace(l.at.tensor_name, '^batch:|^input:', '') AS name,
    CASE WHEN l.at.tensor_name LIKE 'batch:%' THEN 'field' ELSE 'model_input' END AS what_,
    'no_backward' AS reached_, 'counted' AS held_,
    CASE WHEN l.batches >= $often THEN 'error' ELSE 'warning' END AS severity
FROM left_out l WHERE NOT EXISTS (FROM bad_steps b WHERE b.rank = l.rank AND b.step <= l.at.step)
UNION ALL BY NAME
-- nothing was recorded before the loss, as where steps go unwatched: the first operator that held such
-- numbers was given them from outside, and nothing else that it has saved was lost
SELECT o.rank, o.step, p.microbatch, p.seq, 'data' AS phase, coalesce(m.module, '') AS module,
    'input' AS kind, p.nan_count, p.inf_count, p.nan_count + p.inf_count AS value, p.shape, p.min, p.max,
    p.op,
    'input' AS tensor, array_to_string(s.signs, ' and ') AS signs,
    'entering' AS what_, 'bad_step' AS reached_, 'counted' AS held_, 'error' AS severity
FROM nonfinite_origin o
JOIN bad_steps s ON s.rank = o.rank AND s.step = o.step
JOIN (
    SELECT *, bool_or(outside IS NULL) OVER (PARTITION BY rank, step, graph_seq) AS doubtful
    FROM operators WHERE trigger = 'nonfinite' AND nan_count + inf_count > 0
    QUALIFY row_number() OVER (PARTITION BY rank, step ORDER BY graph_seq, outside NULLS FIRST) = 1
) p ON p.rank = o.rank AND p.step = o.step AND p.outside AND NOT p.doubtful
LEFT JOIN modules m ON m.rank = p.rank AND m.module_id = p.module_id
-- of a step that went unwatched, what layers had saved is looked at afterwards
WHERE (o.kind = 'loss' OR o.tensor LIKE '%:saved')
  -- weights that nobody trains may stand before it, under no_grad
  AND NOT EXISTS (FROM parameters q WHERE q.rank = o.rank AND q.optimizer_id IS NULL)
UNION ALL BY NAME
-- on a CPU the extremes of an argument are always measured: where there are none they were not finite
SELECT e.rank, e.step, 'data' AS phase, '' AS module, 'argument ' || x.name AS tensor, 'input' AS kind,
    x.shape, x.name, 'argument' AS what_, 'exception' AS reached_, 'unknown' AS held_, 'error' AS severity
FROM exits e
JOIN exception_tensors x ON x.origin = 'input'
    AND x.device = 'cpu'
    AND contains(x.dtype, 'float')
    AND x.min IS NULL
    AND list_product(x.shape) > 0
WHERE e.status = 'exception'
  AND e.module = ''
  AND regexp_matches(e.exception_message, '(?i)\bnan\b|\binf\b|finite|invalid')
  AND NOT EXISTS (FROM bad_steps b WHERE b.step <= e.step)
QUALIFY row_number() OVER (PARTITION BY e.rank ORDER BY x.ordinal) = 1
ORDER BY rank
