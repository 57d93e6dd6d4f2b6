/*
code = "DA014"
name = "padding-mask-bug"
severity = "error"
phase = "data"
signal = "valid_fraction"
message = "From step {step} on {how_}."
fix = "Check the collate function: the mask and the padding no longer agree."
explains = ["loss-spike", "divergence", "shuffled-labels", "plateau", "fully-masked-attention-row", "nonfinite-tensor"]
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
[doc]
what = "The valid fraction of a mask leaves everything seen in earlier batches by a quarter or more and stays there; or attention puts all its weight on padding, in every look from some step on."
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
, looks AS (
    SELECT p.rank, p.module_id, p.step, p.seq, p.value, p.scale, max(p.step) FILTER (p.value <= 0.999) OVER (PARTITION BY p.rank, p.module_id) AS last_good
    FROM probes p WHERE p.probe = 'attention_on_padding'
), on_padding AS (
    SELECT l.rank, l.module_id, min(l.step) AS look, arg_min(l.seq, l.step) AS seq, min(l.value) AS value, count(*) AS looks, avg(l.scale) AS share, any_value(l.last_good) AS last_good
    FROM looks l WHERE l.step > coalesce(l.last_good, -1) GROUP BY l.rank, l.module_id
), dated AS (
    -- attention is looked at now and then; a mask that was turned round leaves the range of before at the very step
    SELECT o.*, coalesce((SELECT min(m.step) FROM masks m WHERE m.rank = o.rank AND m.step > o.last_good AND m.step <= o.look AND m.seen >= $least AND (m.value < m.low OR m.value > m.high)), o.look) AS step
    FROM on_padding o
)
SELECT o.rank, o.step, o.seq, m.module, 'attention' AS field, o.value, NULL AS low, NULL AS high,
    format('attention in {} gives all its weight to padding, in {:d} looks, although only {:.0f} % of the positions are padding: the mask is turned round', coalesce(nullif(m.module, ''), 'the model'), o.looks, 100 * o.share) AS how_
FROM dated o LEFT JOIN modules m ON m.rank = o.rank AND m.module_id = o.module_id
WHERE o.looks >= $lasting AND o.value > 0.999 AND o.share < 0.95
QUALIFY row_number() OVER (PARTITION BY o.rank ORDER BY o.step, m.call_order) = 1
UNION ALL BY NAME
SELECT rank, step, seq, field, value, low, high, format('the mask {} lets {:.3g} of its elements through; before, batches lay between {:.3g} and {:.3g}', field, value, low, high) AS how_ FROM masks
WHERE seen >= $least AND rows_ >= $lasting AND (ahead_high < low - $far OR ahead_low > high + $far)
QUALIFY row_number() OVER (PARTITION BY rank, field ORDER BY n) = 1
ORDER BY step, rank, seq
