/*
code = "DA014"
name = "padding-mask-bug"
severity = "error"
phase = "data"
signal = "valid_fraction"
message = "From step {step} on the mask {field} lets {value} of its elements through; before, batches lay between {low} and {high}."
fix = "Check the collate function: the mask and the padding no longer agree."
explains = ["loss-spike", "divergence", "plateau", "fully-masked-attention-row", "nonfinite-tensor"]
[params.least]
value = 8
unit = "batches"
doc = "Batches before."
[params.lasting]
value = 3
unit = "batches"
doc = "Batches that it lasts."
[params.far]
value = 0.25
doc = "How far the fraction must lie outside what was seen before."
[needs]
tables = ["batches"]
columns = ["batches.valid_fraction"]
steps = 8
[doc]
what = "The valid fraction of a mask leaves everything seen in earlier batches by a quarter or more and stays there."
why = "Tokens that count are hidden, or padding counts."
not_this = "A single odd batch, masks that vary as much anyway."
source = "The run's own range."
*/
WITH masks AS (
    SELECT rank, step, seq, field, valid_fraction AS value, row_number() OVER series AS n,
        min(valid_fraction) OVER before AS low, max(valid_fraction) OVER before AS high, count(*) OVER before AS seen,
        min(valid_fraction) OVER ahead AS ahead_low, max(valid_fraction) OVER ahead AS ahead_high, count(*) OVER ahead AS rows_
    FROM batches WHERE valid_fraction IS NOT NULL AND phase = 'data'
    WINDOW series AS (PARTITION BY rank, tensor_id, field ORDER BY step, seq),
        before AS (PARTITION BY rank, tensor_id, field ORDER BY step, seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
        ahead AS (PARTITION BY rank, tensor_id, field ORDER BY step, seq ROWS BETWEEN CURRENT ROW AND 2 FOLLOWING)
)
SELECT rank, step, seq, field, value, low, high FROM masks
WHERE seen >= $least AND rows_ >= $lasting AND (ahead_high < low - $far OR ahead_low > high + $far)
QUALIFY row_number() OVER (PARTITION BY rank, field ORDER BY n) = 1
ORDER BY step, rank, seq
