/*
code = "DA014"
name = "padding-mask-bug"
severity = "error"
phase = "data"
signal = "valid_fraction"
message = "From step {step} on {how_}."
fix = "{remedy}"
seeks = [
    [
        "probes: probe = 'attention_on_padding'",
        "batches: role = 'target' AND padding_counted IS NOT NULL OR phase = 'data' AND valid_fraction IS NOT NULL",
        "operators: op = 'MaskedMean'",
        "batches: phase = 'data' AND contains(lower(field), 'attention_mask')",
    ],
]
explains = ["loss-off-course", "shuffled-labels", "plateau", "fully-masked-attention-row", "nonfinite-tensor"]
[say.place_]
model = "the model"
module = "{module}"
[say.how_]
mask_turned = "attention in {place_} gives all its weight to padding, in {looks} looks, although only {padding:.0f} % of the positions are padding: the mask is turned round"
padding_uncovered = "attention in {place_} gives {weight:.0f} % of its weight to padding, in {looks} looks, where it gave none in {closed} looks before: the mask does not cover the padding any more"
all_ones = "the mask {field} is all ones, though {padding:.0f} % of the positions of padded samples are padding, and attention in {place_} gives {weight:.0f} % of its weight to it"
all_zeros = "the mask {field} is all zeros in every batch: where 1 stands for a token to attend to, it hides all of them"
other_padding_value = "sequences in field {field} are padded with 0 where they were padded with {before:.0f}, which is what the embedding calls padding: attention takes {padding:.0f} % of the tokens for real ones"
padding_in_loss = "the loss counts the targets of padding, {padding:.0f} % of all: those of tokens that their embedding, or a mask of the batch, calls padding"
masked_mean = "the loss is a mean over all {places} places, although a mask sets those of padding to zero before, {padding:.0f} % of them: a sample counts the less the more padding its batch has, by a factor of up to {value:.2g} between batches"
left_its_range = "{value:.3g} of the elements of the mask {field} are set; before, batches lay between {low:.3g} and {high:.3g}"
[say.remedy]
check = "Check where the mask is made (the collate function, the model, the call of attention, ignore_index). Check which value means padding. The mask and the padding do not agree."
divide = "Divide by what counts: (loss * mask).sum() / mask.sum()."
[params.least]
value = 8
unit = "batches"
doc = "Batches before."
source = "convention: of this project, fewer batches do not show a range"
[params.lasting]
value = 3
unit = "batches"
doc = "Batches that it lasts."
source = "convention: of this project, one batch of long samples comes by chance"
[params.far]
value = 0.25
doc = "How far the fraction must lie outside what was seen before."
source = "convention: of this project, a quarter of all there is: the fraction lies between 0 and 1"
[params.closed]
value = 4
unit = "looks"
doc = "Looks at attention before, in which padding got nothing."
source = "convention: of this project, as many looks with exact zeros are a mask"
[params.leak]
value = 0.01
doc = "Share of the attention on padding from which padding counts."
source = "convention: of this project, exact zeros are what a mask of -inf makes; a hundredth is no rounding"
[params.often]
value = 0.75
doc = "Share of the looks from then on in which it does."
source = "convention: of this project, three of four looks: some batches have little padding"
[params.even]
value = 0.75
unit = "of the even share"
doc = "Weight on padding, beside the share of the keys that padding is, from which attention takes no notice of it."
source = "convention: of this project, attention that does not know of padding gives it its share of the keys. A quarter less is scatter"
[params.padded]
value = 0.1
doc = "Share of the keys that are padding, in samples that have some. From it on a mask of ones is no chance."
source = "convention: of this project, with less padding a mask of ones may be right for the batch"
[params.some]
value = 0.25
doc = "Share of the looks at attention in which there must be padding: it is looked for less often than attention is looked at."
source = "convention: of this project, fewer looks with padding are too few to judge by"
[params.large]
value = 0.2
doc = "Share of the tokens that padding is, from which a loss that counts it is an error."
source = "convention: of this project, a fifth of the loss is made of padding"
[params.little]
value = 0.05
doc = "The same, from which it is worth a warning."
source = "convention: of this project, a twentieth of the loss is made of padding"
[params.uneven]
value = 1.25
unit = "times"
doc = "Weight of a real place in one batch against another, where a mean divides by all places."
source = "convention: of this project, a quarter: below it the number of places hardly differs"
[params.all_of_it]
value = 0.999
unit = "of the weight"
doc = "Weight on padding that is all of it."
source = "arithmetic: one, less the rounding of sums in half precision"
[params.mostly]
value = 0.95
unit = "of the keys"
doc = "Share of the keys that padding is at most, where all the weight lies on it."
source = "convention: of this project, where nearly all is padding, attention has no choice"
[params.counted]
value = 0.99
unit = "of the padding"
doc = "Share of the targets of padding that the loss counts."
source = "arithmetic: all of them, less rounding"
[params.half]
value = 0.5
unit = "of the ignored"
doc = "Share of what was ignored before."
source = "arithmetic: a half"
[needs]
tables = ["steps"]
[doc]
what = "The valid fraction of a mask leaves everything seen in earlier batches by a quarter or more and stays there. Or attention puts all its weight on padding, in every look from some step on. Or padding, which got exactly no attention before, gets some in nearly every look from some step on. Or the mask in the batches is all ones. Yet sequences are padded, and attention gives the padding its even share. Or a mask called attention_mask is all zeros in every batch. Or tokens are padded with zeros from some batch on. Before, their padding was another number, the padding_idx of their embedding. Or a loss averages over the targets of padding tokens, all of one value. Padding is the padding_idx of their embedding, or one value under the zeros of a mask of the batch. Or a loss is a mean over all places, of which a mask has set those of padding to zero."
why = "Tokens that count are hidden, or padding counts."
not_this = "A single odd batch, masks that vary as much anyway, padded batches without a mask. Losses that are masked after they are computed (reduction='none') and divided by what the mask leaves. Masks of random places, or of samples. Losses that give padding a weight of nothing."
source = "The run's own range."
*/
-- shared
WITH masks AS (
    SELECT rank, step, seq, field, valid_fraction AS value, row_number() OVER series AS n,
        min(valid_fraction) OVER before AS low, max(valid_fraction) OVER before AS high,
            count(*) OVER before AS seen,
        min(valid_fraction) OVER ahead AS ahead_low, max(valid_fraction) OVER ahead AS ahead_high,
            count(*) OVER ahead AS rows_
    FROM batches WHERE valid_fraction IS NOT NULL AND phase = 'data'
    WINDOW series AS (PARTITION BY rank, tensor_id, field ORDER BY step, seq),
        before AS (PARTITION BY rank, tensor_id, field
            ORDER BY step, seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
        ahead AS (PARTITION BY rank, tensor_id, field
            ORDER BY step, seq ROWS BETWEEN CURRENT ROW AND 2 FOLLOWING)
), looks AS (
    SELECT p.rank, p.module_id, p.step, p.seq, p.value, p.scale,
        max(p.step) FILTER (p.value <= $all_of_it) OVER module_ AS last_good,
        min(p.step) FILTER (p.value >= $leak) OVER module_ AS opened
    FROM probes p
    WHERE p.probe = 'attention_on_padding' AND isfinite(p.value)
    WINDOW module_ AS (PARTITION BY p.rank, p.module_id)
)
-- detector: padding_gets_weight
WITH on_padding AS (
    SELECT l.rank, l.module_id, min(l.step) AS look, arg_min(l.seq, l.step) AS seq, min(l.value) AS value,
        count(*) AS looks, avg(l.scale) AS share, any_value(l.last_good) AS last_good, NULL AS closed
    FROM looks l WHERE l.step > coalesce(l.last_good, -1) GROUP BY l.rank, l.module_id
    HAVING count(*) >= $lasting AND min(l.value) > $all_of_it AND avg(l.scale) < $mostly
    UNION ALL
    -- a mask that covers the padding leaves exactly nothing on it, so that any weight there later is a mask
    -- that does not cover it any
    -- more, though by chance it may now and then
    SELECT l.rank, l.module_id, min(l.step) FILTER (later) AS look,
        arg_min(l.seq, l.step) FILTER (later) AS seq, avg(l.value) FILTER (later) AS value,
        count(*) FILTER (later) AS looks,
        avg(l.scale) FILTER (later) AS share, max(l.step) FILTER (NOT later) AS last_good,
            count(*) FILTER (NOT later) AS closed
    FROM (SELECT *, step >= opened AS later FROM looks WHERE opened IS NOT NULL) l
    GROUP BY l.rank, l.module_id
    HAVING count(*) FILTER (NOT later) >= $closed
        AND max(l.value) FILTER (NOT later) = 0
        AND count(*) FILTER (later
            AND l.value >= $leak) >= greatest($lasting, $often * count(*) FILTER (later))
        AND min(l.value) FILTER (later) <= $all_of_it
), dated AS (
    -- attention is looked at now and then; a mask that was turned round, or made otherwise, leaves the range
    -- of before at the very step
    SELECT o.*,
        coalesce((SELECT min(m.step)
            FROM masks m
            WHERE m.rank = o.rank
              AND m.step > o.last_good
              AND m.step <= o.look
              AND m.seen >= $least
              AND (m.ahead_high < m.low OR m.ahead_low > m.high)),
        -- or the loss leaves its band for good there
        (SELECT min(d.step)
            FROM divergences d
            WHERE d.rank = o.rank AND d.step > o.last_good AND d.step <= o.look),
            o.look) AS step
    FROM on_padding o
)
SELECT o.rank, o.step,
    CASE WHEN o.step = o.look THEN least(coalesce(o.last_good, -1) + 1, o.step) ELSE o.step END AS step_lower,
    o.seq, m.module, 'attention' AS field, o.value, NULL AS low, NULL AS high,
    o.looks, o.closed, in_percent(o.share) AS padding, in_percent(o.value) AS weight,
    if(m.module <> '', 'module', 'model') AS place_,
    if(o.closed IS NULL, 'mask_turned', 'padding_uncovered') AS how_
FROM dated o LEFT JOIN modules m ON m.rank = o.rank AND m.module_id = o.module_id
QUALIFY row_number() OVER (PARTITION BY o.rank ORDER BY o.step, m.call_order) = 1
-- detector: all_ones
WITH ones AS (
    -- a mask that never hides anything; labels and other fields of ones have not the shape of the mask's own
    -- sequences
    SELECT rank, min(step) AS step, min(seq) AS seq, field
    FROM batches b
    WHERE phase = 'data' AND len(shape) = 2 AND shape[2] > 1
        AND EXISTS (FROM batches i
            WHERE i.rank = b.rank
              AND i.step = b.step
              AND i.field <> b.field
              AND i.shape = b.shape
              AND starts_with(i.dtype, 'int'))
    GROUP BY rank, tensor_id, field
    HAVING count(*) >= $lasting AND count(*) = count(valid_fraction) AND min(valid_fraction) = 1
), unhidden AS (
    -- at first, before the model could learn which keys to leave alone; in a causal model what looks at the
    -- padding behind is mostly
    -- padding itself, and that gives it far less than the even share
    SELECT f.rank, f.module_id, avg(f.value) AS value, avg(f.scale) AS share
    FROM (SELECT *, row_number() OVER (PARTITION BY rank, module_id ORDER BY step, seq) AS n FROM looks) f
    WHERE f.n <= $lasting
    GROUP BY f.rank, f.module_id
    HAVING count(*) = $lasting
        AND min(f.scale) >= $padded
        AND min(f.value / f.scale) >= $even
        AND avg(f.value) <= $all_of_it
        AND (SELECT count(*) FROM looks l WHERE l.rank = f.rank AND l.module_id = f.module_id)
            > $some * (SELECT count(*)
                FROM probes p
                WHERE p.rank = f.rank AND p.module_id = f.module_id AND p.probe = 'attention_entropy')
)
SELECT o.rank, o.step, o.seq, m.module, o.field, u.value, NULL AS low, NULL AS high,
    in_percent(u.share) AS padding, in_percent(u.value) AS weight,
    if(m.module <> '', 'module', 'model') AS place_, 'all_ones' AS how_
FROM unhidden u JOIN ones o USING (rank) LEFT JOIN modules m ON m.rank = u.rank AND m.module_id = u.module_id
QUALIFY row_number() OVER (PARTITION BY u.rank ORDER BY m.call_order, o.seq) = 1
-- detector: all_zeros
SELECT rank, min(step) AS step, min(seq) AS seq, field, 'all_zeros' AS how_
FROM batch_fields
-- the name says what ones mean; in a mask of booleans true may stand for what is hidden
WHERE phase = 'data' AND contains(lower(field), 'attention_mask') AND dtype <> 'bool' AND shape[2] > 1
GROUP BY rank, tensor_id, field
HAVING count(*) >= $lasting AND count(*) = count(numel) AND min("min") = 0 AND max("max") = 0
-- detector: padded_with_another_value
WITH filled AS (
    -- tokens whose lowest number has always been one and the same, and that hold zeros from some batch on: in
    -- each batch exactly as many
    -- as targets are left out
    SELECT f.rank, f.tensor_id, f.field, min(f.step) FILTER (f.min = 0) AS step,
        arg_min(f.seq, f.step) FILTER (f.min = 0) AS seq, max(f.min) AS before
    FROM batch_fields f
    WHERE f.role = 'input'
      AND f.phase = 'data'
      AND starts_with(f.dtype, 'int')
      AND len(f.shape) = 2
      AND f.shape[2] > 1
    GROUP BY f.rank, f.tensor_id, f.field
    HAVING count(*) FILTER (f.min > 0) >= $least
        AND count(DISTINCT f.min) = 2
        AND min(f.min) = 0
        AND count(*) FILTER (f.min = 0) >= $lasting
        AND max(f.step) FILTER (f.min > 0) <= min(f.step) FILTER (f.min = 0)
), refilled AS (
    SELECT f.*, n.value FROM filled f JOIN (
        SELECT f.rank, f.tensor_id, avg(i.zero_count / i.numel) AS value FROM filled f
        JOIN batch_fields i ON i.rank = f.rank
            AND i.tensor_id = f.tensor_id
            AND i.phase = 'data'
            AND i.step >= f.step
            AND i.min = 0
        JOIN batch_fields t ON t.rank = i.rank
            AND t.step = i.step
            AND t.microbatch = i.microbatch
            AND t.role = 'target'
            AND t.phase <> 'eval'
            AND t.numel = i.numel
            AND t.ignored_count IS NOT NULL
        GROUP BY f.rank, f.tensor_id HAVING count(*) >= $lasting AND bool_and(i.zero_count = t.ignored_count)
    ) n ON n.rank = f.rank AND n.tensor_id = f.tensor_id
    -- there was padding in every look, as its embedding calls it, and from then on there is none
    WHERE (SELECT count(*) FROM looks l WHERE l.rank = f.rank AND l.step < f.step) >= $closed
      AND NOT EXISTS (SELECT 1 FROM looks l WHERE l.rank = f.rank AND l.step >= f.step)
      AND (SELECT count(*)
          FROM probes p
          WHERE p.rank = f.rank AND p.probe = 'attention_entropy' AND p.step >= f.step) > 0
)
SELECT r.rank, r.step, r.seq, r.field, r.value, r.before, in_percent(r.value) AS padding,
    'other_padding_value' AS how_
FROM refilled r QUALIFY row_number() OVER (PARTITION BY r.rank ORDER BY r.step, r.seq) = 1
-- detector: padding_in_loss
WITH in_loss AS (
    SELECT c.rank, c.tensor_id, min(c.step) AS look, any_value(c.last_good) AS last_good,
        arg_min(c.seq, c.step) AS seq, any_value(c.field) AS field, median(c.padding_fraction) AS value
    FROM (
        SELECT *,
            max(step) FILTER (padding_counted < $counted) OVER (PARTITION BY rank, tensor_id) AS last_good
        FROM batches
        WHERE role = 'target'
          AND phase <> 'eval'
          AND padding_counted IS NOT NULL
          AND reduction IN ('mean', 'sum')
          AND weighted = false
    ) c
        WHERE c.step > coalesce(c.last_good, -1)
        GROUP BY c.rank, c.tensor_id
        HAVING count(*) >= $lasting AND median(c.padding_fraction) >= $little
)
SELECT c.rank, coalesce(c.counted, c.look) AS step,
    coalesce(c.counted, c.last_good + 1, c.look) AS step_lower, c.seq, c.field, c.value,
    CASE WHEN c.value >= $large THEN 'error' ELSE 'warning' END AS severity,
    in_percent(c.value) AS padding, 'padding_in_loss' AS how_
FROM (
    -- padding is looked for now and then; how many targets the loss leaves out is known of every batch
    SELECT *,
        (SELECT min(b.step)
            FROM batches b
            WHERE b.rank = in_loss.rank
              AND b.tensor_id = in_loss.tensor_id
              AND b.step > in_loss.last_good
              AND b.step <= in_loss.look
        -- far fewer than ever before: of targets that were shifted in place the last ones are still left out
        AND b.ignored_count < (SELECT $half * min(e.ignored_count)
            FROM batches e
            WHERE e.rank = b.rank AND e.tensor_id = b.tensor_id AND e.step <= in_loss.last_good
            HAVING count(*) >= $lasting)) AS counted
    FROM in_loss
) c
-- detector: masked_mean
WITH looks AS (
    SELECT rank, step, seq, numel, zero_count / numel AS padding,
        (1 - zero_count / numel) * abs("max") AS scale
    FROM operators WHERE op = 'MaskedMean' AND numel > zero_count AND "max" <> 0
)
SELECT rank, min(step) AS step, min(seq) AS seq, max(scale) / min(scale) AS value,
    median(numel)::BIGINT AS places, in_percent(median(padding)) AS padding,
    CASE WHEN median(padding) >= $large THEN 'error' ELSE 'warning' END AS severity, 'masked_mean' AS how_
FROM looks GROUP BY rank
HAVING count(*) >= $closed AND median(padding) >= $little AND max(scale) >= $uneven * min(scale)
-- detector: mask_left_its_range
SELECT rank, step, seq, field, value, low, high, 'left_its_range' AS how_
FROM masks
WHERE seen >= $least AND rows_ >= $lasting AND (ahead_high < low - $far OR ahead_low > high + $far)
QUALIFY row_number() OVER (PARTITION BY rank, field ORDER BY n) = 1
-- together
SELECT *, if(how_ = 'masked_mean', 'divide', 'check') AS remedy FROM found
ORDER BY step, rank, seq
