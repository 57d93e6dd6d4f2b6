/*
code = "DA003"
name = "constant-input"
severity = "error"
phase = "data"
signal = "std"
message = "From step {step} on every element of {field} is {value} ({batches} batches in a row): the input carries nothing."
fix = "Look at the loader and the normalisation of {field}: all values became equal."
explains = ["divergence", "loss-spike", "plateau", "representation-collapse", "underfit", "shuffled-labels", "exploding-gradients", "dead-relu", "frozen-by-zero-gradient", "train-eval-input-mismatch", "duplicate-batches", "broken-graph"]
[params.least]
value = 2
unit = "batches"
doc = "Constant batches on end."
[params.before]
value = 3
unit = "batches"
doc = "Batches before in which the field varied."
[params.spread]
value = 8
doc = "Range that whole numbers had before: token and category numbers, not masks."
[needs]
tables = ["batches", "tensor_stats"]
columns = ["tensor_stats.min", "batches.field"]
[doc]
what = "An input whose elements are all equal, in a field that varied in earlier batches; or in all batches, where it is the only float input of its model. Of whole numbers only those count that spread over more than a few values before."
why = "A model cannot learn from an input that is always the same."
not_this = "Masks (a field that is always 1), a single odd batch, fields of fewer than 16 elements, a constant field beside one that varies."
source = "Arithmetic: minimum equals maximum."
*/
WITH fields AS (
    SELECT b.*, s.min AS low, s.max AS high, s.min = s.max AS same, row_number() OVER series AS n,
        -- token and category numbers spread widely; a mask of ones in batches without padding does not count
        count(CASE WHEN s.max - s.min > CASE WHEN b.whole_numbers THEN $spread ELSE 0 END THEN 1 END) OVER before AS varied
    FROM (
        SELECT rank, step, seq, tensor_id AS source_id, field, role, NOT contains(dtype, 'float') AS whole_numbers,
            concat_ws('/', shape[2:]::VARCHAR, CASE WHEN NOT contains(dtype, 'float') THEN field END) AS tensor_id
        FROM batches WHERE role = 'input' AND phase = 'data' AND NOT contains(dtype, 'bool')
    ) b JOIN tensor_stats s ON s.rank = b.rank AND s.step = b.step AND s.seq = b.seq AND s.tensor_id = b.source_id
    WHERE s.numel >= 16 AND s.min IS NOT NULL AND s.nan_count + s.inf_count = 0
    WINDOW series AS (PARTITION BY b.rank, b.tensor_id ORDER BY b.step, b.seq),
        before AS (PARTITION BY b.rank, b.tensor_id ORDER BY b.step, b.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
), runs AS (
    SELECT *, n - row_number() OVER (PARTITION BY rank, tensor_id, same ORDER BY n) AS island FROM fields
), constant AS (
    SELECT rank, tensor_id, field, island, min(step) AS step, min(seq) AS seq, any_value(low) AS value, count(*) AS batches, min(varied) AS varied, min(n) AS first,
        any_value(whole_numbers) AS whole_numbers
    FROM runs WHERE same GROUP BY rank, tensor_id, field, island
), alone AS (
    SELECT rank FROM fields WHERE NOT whole_numbers GROUP BY rank HAVING bool_and(same) AND count(*) >= 10 AND bool_and(low <> 1)
)
SELECT rank, step, seq, field, value, batches FROM constant
WHERE (varied >= $before AND batches >= $least) OR (first = 1 AND batches >= 10 AND NOT whole_numbers AND rank IN (SELECT rank FROM alone))
ORDER BY step, rank, seq
