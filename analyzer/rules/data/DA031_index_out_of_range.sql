/*
code = "DA031"
name = "index-out-of-range"
severity = "error"
phase = "forward"
signal = "max"
message = "An embedding of {rows} rows{of_module_} was asked for row {value:.0f} at step {step}: {evidence_}."
fix = "Make num_embeddings larger than the largest index; after adding tokens call resize_token_embeddings. Look for -100 or -1 among the inputs. Sequences may be longer than the table of positions."
seeks = [
    "exits: exception_message LIKE '%index out of range in self%' OR exception_message LIKE '%device-side assert%'",
]
explains = ["python-exception", "shape-or-dtype-error", "native-crash", "killed-by-signal", "nonfinite-tensor"]
[say.of_module_]
named = " (module {module})"
[say.evidence_]
raised = "its indices reach from {lowest} to {highest}"
asserted = "field {field} of the batch reaches from {lowest} to {highest}; then a kernel of the device found an index out of range"
first = "field {field} of the batch reaches from {lowest} to {highest} for the first time; then a kernel of the device found an index out of range"
[params.behind]
value = 16
unit = "steps"
doc = "Steps before the exception in which the batch may lie."
source = "convention: of this project, a device is rarely more than a few steps behind the host"
[needs]
ended = true
[doc]
what = "An embedding is asked for a row that it does not have."
why = "On the CPU the message names neither the index nor the table. On CUDA a kernel asserts, and the exception comes up at a later line."
not_this = "Labels out of range of a loss. A field of the batch that had such numbers all along, beside a larger table."
source = "Definition of torch.nn.functional.embedding."
*/
-- detector: raised
SELECT coalesce(e.rank, 0) AS rank, coalesce(e.step, 0) AS step, e.microbatch, nullif(e.module, '') AS module,
    'input' AS tensor, w.shape[1] AS rows, i.min AS lowest, i.max AS highest,
    CASE WHEN i.max >= w.shape[1] THEN i.max ELSE i.min END AS value,
    CASE WHEN e.module <> '' THEN 'named' END AS of_module_, 'raised' AS evidence_
FROM exits e
JOIN exception_tensors i ON i.origin = 'local' AND i.name = 'input' AND i.dtype LIKE 'int%'
JOIN exception_tensors w ON w.origin = 'local' AND w.name = 'weight' AND w.dtype LIKE '%float%'
WHERE e.exception_message LIKE '%index out of range in self%'
  AND (i.max >= w.shape[1] OR i.min < 0)
QUALIFY row_number() OVER (ORDER BY w.ordinal, i.ordinal) = 1
-- detector: asserted_on_the_device
WITH tables AS (
    SELECT rank, module_id, module, rows, rows = max(rows) OVER (PARTITION BY rank) AS largest
    FROM (
        SELECT rank, module_id, module, TRY_CAST(settings ->> '$.num_embeddings' AS BIGINT) AS rows
        FROM modules WHERE class_name LIKE '%Embedding%')
    WHERE rows IS NOT NULL
), asked AS (
    SELECT b.rank, b.step, b.microbatch, b.seq, b.field, b.min AS lowest, b.max AS highest, t.module_id,
        t.module, t.rows, t.largest, b.min < 0 OR b.max >= t.rows AS outside
    FROM batch_fields b JOIN tables t ON t.rank = b.rank
    WHERE b.role IN ('field', 'input') AND b.dtype LIKE 'int%' AND b.phase <> 'eval' AND b.max IS NOT NULL
), begun AS (
    SELECT *, bool_or(NOT outside) OVER (PARTITION BY rank, field, module_id ORDER BY step, seq)
        AS inside_before
    FROM asked
)
SELECT b.rank, b.step, b.microbatch, b.seq, b.module, b.field AS tensor, b.field, b.rows, b.lowest, b.highest,
    CASE WHEN b.highest >= b.rows THEN b.highest ELSE b.lowest END AS value,
    CASE WHEN b.module <> '' THEN 'named' END AS of_module_,
    CASE WHEN b.inside_before THEN 'first' ELSE 'asserted' END AS evidence_
FROM exits e JOIN begun b ON b.rank = coalesce(e.rank, 0)
WHERE e.exception_message LIKE '%device-side assert%'
  AND coalesce(e.device_assertion NOT LIKE '%n_classes%', true)
  AND b.outside AND b.step > e.step - $behind AND (b.inside_before OR b.largest)
  -- what lay outside long before did no harm
  AND NOT EXISTS (SELECT 1 FROM asked o WHERE o.rank = b.rank AND o.field = b.field
      AND o.module_id = b.module_id AND o.outside AND o.step <= e.step - $behind)
QUALIFY row_number() OVER (PARTITION BY b.rank ORDER BY b.step, b.rows, b.seq, b.module_id) = 1
-- together
ORDER BY step, rank
