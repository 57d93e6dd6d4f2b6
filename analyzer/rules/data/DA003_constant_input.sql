/*
code = "DA003"
name = "constant-input"
severity = "error"
phase = "data"
signal = "std"
message = "From step {step} on {what_} ({batches} batches in a row): the input carries no information."
fix = "Look at the loader and the normalisation of {field}: all values became equal."
seeks = [
    """batch_fields: role = 'input' AND phase = 'data' AND NOT contains(dtype, 'bool') AND (min = max \
        OR contains(dtype, 'float') AND fingerprint IS NOT NULL)""",
]
explains = ["loss-off-course", "nothing-learnt", "representation-collapse", "shuffled-labels", "exploding-gradients", "dead-relu", "frozen-by-zero-gradient", "train-eval-input-mismatch", "duplicate-batches", "broken-graph"]
[say.what_]
one_number = "every element of {field} is {value:.6g}"
one_batch = "the batch of {field} is the same to the last bit"
[params.least]
value = 2
unit = "batches"
doc = "Constant batches in a row."
source = "convention: of this project, one constant batch may be a picture of one colour"
[params.before]
value = 3
unit = "batches"
doc = "Batches before in which the field varied."
source = "convention: of this project, as many batches as show that the field does vary"
[params.spread]
value = 8
doc = "Range that whole numbers had before: token and category numbers, not masks."
source = "convention: of this project, masks and flags hold 0 and 1, and small categories up to eight values"
[params.chance]
value = 8
unit = "batches"
doc = "Constant batches in a row, to the end of the run, where single ones had come before."
source = "convention: of this project, data with constant batches now and then have some in a row, seldom as many"
[params.varied]
value = 8
unit = "batches"
doc = "Batches before in which the content was new each time."
source = "convention: of this project, new each time for as many batches is no chance"
[params.frozen]
value = 5
unit = "batches"
doc = "Batches, to the end of the run, with one and the same content while targets differ."
source = "convention: of this project, as many equal batches are no chance where targets go on"
[params.elements]
value = 16
unit = "elements"
doc = "Elements of a batch that can be judged."
source = "convention: of this project, fewer are equal by chance"
[params.too_few]
value = 15
unit = "elements"
doc = "Elements of one that cannot."
source = "arithmetic: one less"
[params.all_batches]
value = 10
unit = "batches"
doc = "Batches, all constant, from the first on."
source = "convention: of this project, fewer may be a test"
[params.longer]
value = 2
unit = "times"
doc = "Constant batches in a row, beside the longest such row before."
source = "own history"
[needs]
tables = ["batches", "tensor_stats"]
columns = ["tensor_stats.min", "batches.field"]
[doc]
what = "All elements of an input are equal, in a field that varied in earlier batches. Or they are equal in all batches, and it is the only float input of its model. Or an input has the same content from one batch to the end, while the targets go on changing. Such an input is the only one of the model or has a row for each target. It was new in every batch before. A field of whole numbers counts only if it held more than a few values before."
why = "A model cannot learn from an input that is always the same."
not_this = "Masks (a field that is always 1), a single odd batch. Data in which constant batches come now and then, fields of fewer than 16 elements. A constant field beside one that varies."
source = "Arithmetic: minimum equals maximum."
*/
-- detector: all_one_number
WITH fields AS (
    SELECT b.*, s.min AS low, s.max AS high, s.min = s.max AS same, row_number() OVER series AS n,
        -- token and category numbers spread widely; a mask of ones in batches without padding does not count
        count(CASE
            WHEN s.max - s.min > CASE WHEN b.whole_numbers THEN $spread ELSE 0 END THEN 1
            END) OVER before AS varied,
        count(CASE WHEN s.max = s.min THEN 1 END) OVER before AS same_before,
            count(*) OVER (PARTITION BY b.rank, b.tensor_id) AS total
    FROM (
        SELECT rank, step, seq, tensor_id AS source_id, field, role,
            NOT contains(dtype, 'float') AS whole_numbers,
            concat_ws('/', shape[2:]::VARCHAR,
                CASE WHEN NOT contains(dtype, 'float') THEN field END) AS tensor_id
        FROM batches WHERE role = 'input' AND phase = 'data' AND NOT contains(dtype, 'bool')
    ) b
        JOIN tensor_stats s ON s.rank = b.rank
            AND s.step = b.step
            AND s.seq = b.seq
            AND s.tensor_id = b.source_id
    WHERE s.numel >= $elements AND s.min IS NOT NULL AND s.nan_count + s.inf_count = 0
    WINDOW series AS (PARTITION BY b.rank, b.tensor_id ORDER BY b.step, b.seq),
        before AS (PARTITION BY b.rank, b.tensor_id
            ORDER BY b.step, b.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
), short AS (
    -- sequences too short to be judged: where they hold one number now and then, longer ones may too
    SELECT b.rank, b.step, concat_ws('/', b.shape[2:]::VARCHAR, b.field) AS tensor_id
    FROM batches b
    JOIN tensor_stats s ON s.rank = b.rank AND s.step = b.step AND s.seq = b.seq AND s.tensor_id = b.tensor_id
    WHERE b.role = 'input'
      AND b.phase = 'data'
      AND NOT contains(b.dtype, 'float')
      AND NOT contains(b.dtype, 'bool')
      AND s.numel BETWEEN 2 AND $too_few
      AND s.min = s.max
), runs AS (
    SELECT *, n - row_number() OVER (PARTITION BY rank, tensor_id, same ORDER BY n) AS island FROM fields
), constant AS (
    SELECT rank, tensor_id, field, island, min(step) AS step, min(seq) AS seq, any_value(low) AS value,
        count(*) AS batches, min(varied) AS varied, min(n) AS first, min(same_before) AS same_before,
        max(n) = any_value(total) AS to_the_end,
        any_value(whole_numbers) AS whole_numbers
    FROM runs WHERE same GROUP BY rank, tensor_id, field, island
), alone AS (
    SELECT rank
    FROM fields
    WHERE NOT whole_numbers
    GROUP BY rank
    HAVING bool_and(same) AND count(*) >= $all_batches AND bool_and(low <> 1)
)
SELECT rank, step, seq, field, value, batches, 'one_number' AS what_
FROM (SELECT * REPLACE (same_before + (SELECT count(*)
    FROM short h
    WHERE h.rank = constant.rank
      AND h.tensor_id = constant.tensor_id
      AND h.step <= constant.step) AS same_before)
,
        max(batches) OVER (PARTITION BY rank, tensor_id
            ORDER BY first ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS longest_before
    FROM constant)
-- data that hold a constant batch now and then will hold some in a row by chance
WHERE (varied >= $before
    AND batches >= CASE WHEN same_before > 0 THEN $chance ELSE $least END
    AND (same_before = 0 OR to_the_end)
    -- a mask that hides something now and then is all ones for long in between
    AND batches > $longer * coalesce(longest_before, 0))
  OR (first = 1 AND batches >= $all_batches AND NOT whole_numbers AND rank IN (SELECT rank FROM alone))
-- detector: one_batch_again_and_again
WITH prints AS (
    -- an input of which the content varied, and then is the same in every batch to the end, while the targets
    -- go on varying
    SELECT rank, step, seq, tensor_id, field, shape, fingerprint,
        fingerprint = lag(fingerprint) OVER w AS again, row_number() OVER w AS n,
        count(*) OVER (PARTITION BY rank, tensor_id) AS total,
        (SELECT bool_and(s.min = 0 AND s.max = 1 AND s.sum = s.sum_sq)
            FROM tensor_stats s
            WHERE s.rank = batches.rank
              AND s.step = batches.step
              AND s.seq = batches.seq
              AND s.tensor_id = batches.tensor_id) AS mask
    FROM batches
    WHERE role = 'input'
      AND phase = 'data'
      AND fingerprint IS NOT NULL
      AND contains(dtype, 'float')
      AND list_product(shape) >= $elements
    WINDOW w AS (PARTITION BY rank, tensor_id ORDER BY step, seq)
), first_again AS (
    SELECT *,
        max(CASE WHEN NOT coalesce(again, false) THEN n END) OVER (PARTITION BY rank, tensor_id) AS last_new,
        count(CASE WHEN again THEN 1 END) OVER (PARTITION BY rank, tensor_id) AS repeats
    FROM prints
), frozen_from AS MATERIALIZED (
    -- one row of a field at most: asked of every batch, what comes after it is the square of their number
    FROM first_again WHERE n = last_new AND n > $varied AND total - n >= $frozen AND repeats = total - n
), repeated AS (
    SELECT f.rank, f.step, f.seq, f.field, f.total - f.n + 1 AS batches FROM frozen_from f
    WHERE (SELECT count(DISTINCT t.fingerprint)
          FROM batches t
          WHERE t.rank = f.rank AND t.role = 'target' AND t.phase = 'loss' AND t.step >= f.step) >= $frozen
      AND (NOT EXISTS (FROM batches o
          WHERE o.rank = f.rank AND o.role = 'input' AND o.phase = 'data' AND o.tensor_id <> f.tensor_id)
        -- beside other inputs: a row for each target, and not a mask (numbers that are their own squares)
        OR (len(f.shape) >= 2
            AND f.mask IS NOT TRUE
            AND EXISTS (FROM batches t
                WHERE t.rank = f.rank
                  AND t.role = 'target'
                  AND t.phase = 'loss'
                  AND t.step = f.step
                  AND t.shape[1] = f.shape[1])))
)
SELECT r.rank, r.step, r.seq, r.field, NULL::DOUBLE AS value, r.batches, 'one_batch' AS what_
FROM repeated r
-- together
ORDER BY step, rank, seq
