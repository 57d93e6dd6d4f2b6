/*
code = "DA004"
name = "label-out-of-range"
severity = "error"
phase = "loss"
signal = "out_of_range_count"
message = "Targets of step {step} reach from {lowest} to {highest}. The loss knows {classes} classes (0 to classes - 1): {evidence_}."
fix = "Check the mapping from labels to class numbers. Labels may start at 1, or the head may lack a class. Padding may not be ignore_index, or a label 0 may be where CTC has its blank. Or give the head as many outputs as there are classes."
seeks = [
    [
        "batches: out_of_range_count > 0 AND phase <> 'eval'",
        "exits: exception_message IS NOT NULL",
        "operators: trigger = 'risk' AND op = 'CtcLoss'",
    ],
]
explains = ["python-exception", "shape-or-dtype-error", "native-crash", "killed-by-signal", "nonfinite-tensor", "loss-spike", "shuffled-labels"]
[say.evidence_]
outside = "{value:.0f} of {targets} are outside"
blank = "{value:.0f} of {targets} targets are the blank of the CTC loss, which is no label"
raised = "{exception}"
asserted = "field {field} of the batch reaches from {lowest} to {highest} in step {step}, for the first time; then a kernel of the device found an index out of range"
[params.blanks]
value = 3
unit = "looks"
doc = "Looks at a CTC loss whose targets hold the blank."
source = "convention: of this project, one target with a blank may be a mistake in the data, three are a choice of the blank"
[params.behind]
value = 16
unit = "steps"
doc = "Steps before the exception in which the batch may lie."
source = "convention: of this project, a device is rarely more than a few steps behind the host"
[params.shown]
value = 200
unit = "characters"
doc = "Length of a message that is shown."
source = "convention: of this project, as much as two lines show"
[needs]
[doc]
what = "A class target is below 0 (and is not ignored), or not below the number of classes. Or the targets of a CTC loss hold its blank."
why = "On the CPU the loss raises; on CUDA the kernel asserts much later with a message that names another line."
not_this = "Targets equal to ignore_index, targets of losses without classes, and indices of embeddings."
source = "Definition of the class-index losses of PyTorch."
*/
-- detector: seen_or_raised
WITH seen AS (
    SELECT b.rank, b.step, b.microbatch, b.seq, b.field AS tensor, b.out_of_range_count AS value, b.classes,
        b.min AS lowest, b.max AS highest, b.shape,
        coalesce(b.numel, list_product(b.shape)::BIGINT) AS targets, 'outside' AS evidence_
    FROM batch_fields b WHERE b.out_of_range_count > 0 AND b.phase <> 'eval'
), locals_ AS (
    SELECT max(CASE WHEN name = 'target' OR name = 'targets' OR name = 'labels' THEN min END) AS lowest,
        max(CASE WHEN name = 'target' OR name = 'targets' OR name = 'labels' THEN max END) AS highest,
        max(CASE WHEN name = 'input'
            AND len(shape) >= 1 THEN shape[CASE WHEN len(shape) = 1 THEN 1 ELSE 2 END] END) AS classes
    FROM exception_tensors WHERE origin = 'local'
), raised AS (
    SELECT coalesce(e.rank, 0) AS rank, coalesce(e.step, (SELECT max(step) FROM steps), 0) AS step,
        e.microbatch,
        NULL::INTEGER AS seq, 'target' AS tensor,
        coalesce(TRY_CAST(regexp_extract(e.exception_message, 'Target (-?\d+) is out of bounds',
            1) AS DOUBLE),
            l.highest) AS value,
        l.classes, l.lowest, l.highest, NULL::BIGINT[] AS shape,
        e.exception_type || ': ' || rtrim(left(split_part(e.exception_message, chr(10), 1), $shown),
            '. ') AS exception, 'raised' AS evidence_
    FROM exits e CROSS JOIN locals_ l
    WHERE regexp_matches(e.exception_message, 'Target -?\d+ is out of bounds')
       OR (regexp_matches(e.exception_message,
           '(out of bounds|index out of range|device-side assert|t >= 0 && t < n_classes)')
           AND regexp_matches(e.traceback, '(cross_entropy|nll_loss|multi_margin_loss)')
           AND (l.lowest < 0 OR l.highest >= l.classes))
)
SELECT * FROM seen
UNION ALL BY NAME
SELECT rank, step, microbatch, seq, 'target' AS tensor, zero_count AS value, shape[3] AS classes,
    min AS lowest, max AS highest, shape, numel AS targets, 'blank' AS evidence_
FROM operators
WHERE trigger = 'risk' AND op = 'CtcLoss' AND saved = 'blank'
QUALIFY count(*) OVER (PARTITION BY rank) >= $blanks
UNION ALL BY NAME
-- an exception of a rank whose batch already shows it adds nothing
SELECT * FROM raised r WHERE NOT EXISTS (SELECT 1 FROM seen s WHERE s.rank = r.rank AND s.step = r.step)
-- detector: asserted_on_the_device
WITH known AS (
    -- classes of the loss, and the index that it ignores where one was seen
    SELECT rank, arg_max(classes, step) AS classes, arg_max(list_product(shape), step) AS size
    FROM batch_fields WHERE role = 'target' AND classes IS NOT NULL AND phase <> 'eval' GROUP BY rank
), labels AS (
    SELECT b.rank, b.step, b.microbatch, b.seq, b.field, b.min AS lowest, b.max AS highest, b.shape,
        k.classes,
        b.min < 0 OR b.max >= k.classes AS outside
    FROM batch_fields b JOIN known k ON k.rank = b.rank
    WHERE b.role IN ('field', 'input') AND b.dtype LIKE 'int%' AND b.phase <> 'eval'
      AND list_product(b.shape) = k.size
)
SELECT l.rank, l.step, l.microbatch, l.seq, 'target' AS tensor, l.field,
    CASE WHEN l.highest >= l.classes THEN l.highest ELSE l.lowest END AS value,
    l.classes, l.lowest, l.highest, l.shape, 'asserted' AS evidence_
FROM exits e JOIN labels l ON l.rank = coalesce(e.rank, 0)
WHERE e.exception_message LIKE '%device-side assert%'
  AND coalesce(e.device_assertion LIKE '%n_classes%', true)
  AND l.outside AND l.step > e.step - $behind
  AND NOT EXISTS (SELECT 1 FROM labels o WHERE o.rank = l.rank AND o.field = l.field
      AND o.outside AND o.step <= e.step - $behind)
  AND NOT EXISTS (SELECT 1 FROM batch_fields b WHERE b.rank = l.rank AND b.out_of_range_count > 0)
QUALIFY row_number() OVER (PARTITION BY l.rank ORDER BY l.step, l.seq) = 1
-- together
ORDER BY step, rank, seq
