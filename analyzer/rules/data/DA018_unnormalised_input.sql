/*
code = "DA018"
name = "unnormalised-input"
severity = "warning"
phase = "data"
signal = "rms"
message = "{field} enters {module} ({class_name}) {how_}: root mean square {value}, mean {mean}, values from {low} to {high} in all {batches} batches."
fix = "{remedy_}"
seeks = [
    """batch_fields: phase = 'data' AND contains(dtype, 'float') AND numel >= $elements AND (role = 'input' \
        AND coalesce(rms > $rms, true) OR len(shape) = $picture AND coalesce(max - min < $spread, true))""",
]
explains = ["exploding-gradients", "dead-relu", "saturated-activation", "exploding-activations", "bad-init-scale", "frozen-by-zero-gradient", "representation-collapse", "shuffled-labels", "plateau"]
generic = true
[say.how_]
large = "unnormalised"
narrow = "normalised twice: its values lie within {spread:.2g} of each other"
[say.remedy_]
large = "Scale the input to about mean 0 and standard deviation 1 (for bytes: divide by 255 first)."
narrow = "Scale the pictures once. Look for a division by 255, or a Normalize, of what is scaled already."
[params.spread]
value = 0.02
doc = "Distance of the largest from the smallest value of pictures that tell next to nothing."
source = "arithmetic: bytes that are scaled to a range of 2 and then by 127.5 once more lie within 0.016, those divided by 255 twice within 0.004"
[params.picture]
value = 4
unit = "dimensions"
doc = "Of a batch of pictures: samples, channels, height, width."
source = "arithmetic: torch.nn.Conv2d"
[params.rms]
value = 40.0
doc = "Root mean square from which an input is far from unit scale."
source = "convention: of this project, between the 1 of normalised inputs and the 70 of pixels from 0 to 255"
[params.nothing]
value = 0.85
doc = "Loss in the second half of the run over the first loss that counts as having learnt nothing."
source = "convention: of this project, a model that learns loses more than a seventh of its first loss by then"
[params.length]
value = 100
unit = "steps"
doc = "Length of a run from which its losses tell how the training as a whole went."
source = "convention: of this project, a network needs tens of steps to begin, and twice as many where its inputs are in its way"
[params.elements]
value = 32
unit = "elements"
doc = "Elements of an input that can be judged."
source = "convention: of this project, fewer scatter too much"
[params.batches]
value = 5
unit = "batches"
doc = "Batches that are all like that."
source = "convention: of this project, fewer may be a test"
[needs]
tables = ["batches", "tensor_stats", "modules"]
columns = ["tensor_stats.sum_sq"]
steps = 5
[doc]
what = "A float input has a scale of tens or hundreds in all batches. Its first layer is linear or a convolution. This is an error where nothing is learnt. Or all pictures lie within a fiftieth, which is an error."
why = "The first layer's gradients are larger than all others by that factor; one learning rate cannot fit both."
not_this = "A first layer that normalises or embeds, a model that scales its input before it, integers, a single batch."
source = "0-255 pixels have a root mean square above 70; unit scale is what initialisations assume."
*/
-- shared
WITH inputs AS (
    SELECT b.rank, b.field, b.tensor_id, any_value(len(b.shape)) AS dims, min(b.step) AS step,
        count(*) AS batches,
        median(sqrt(s.sum_sq / s.numel)) AS value, min(sqrt(s.sum_sq / s.numel)) AS least,
        median(s.sum / s.numel) AS mean, min(s.min) AS low, max(s.max) AS high,
        bool_or(b.role = 'input') AS enters, bool_or(b.loader_id IS NOT NULL) AS loaded
    FROM batches b
    JOIN tensor_stats s ON s.rank = b.rank AND s.step = b.step AND s.seq = b.seq AND s.tensor_id = b.tensor_id
    WHERE b.role IN ('input', 'target')
      AND b.phase = 'data'
      AND contains(b.dtype, 'float')
      AND s.numel >= $elements
      AND s.nan_count + s.inf_count = 0
    GROUP BY b.rank, b.field, b.tensor_id
), scaled AS (
    SELECT DISTINCT t.rank, t.module_id
    FROM tensors t
    JOIN (SELECT rank, tensor_id
        FROM tensor_stats
        WHERE sum_sq <= numel * $rms * $rms
        GROUP BY rank, tensor_id) s ON s.rank = t.rank AND s.tensor_id = t.tensor_id
    WHERE t.kind = 'activation' AND t.tensor_name LIKE '%:input0'
), scaled_up AS (
    SELECT DISTINCT t.rank, t.module_id
    FROM tensors t
    JOIN (SELECT rank, tensor_id FROM tensor_stats
        GROUP BY rank, tensor_id HAVING max(max) - min(min) >= $spread) s
        ON s.rank = t.rank AND s.tensor_id = t.tensor_id
    WHERE t.kind = 'activation' AND t.tensor_name LIKE '%:input0'
), leaves AS (
    SELECT m.rank, m.module_id, m.module, m.class_name, m.call_order,
        row_number() OVER (PARTITION BY m.rank, m.model ORDER BY m.call_order) AS n
    FROM modules m
    WHERE m.call_order IS NOT NULL
      AND NOT EXISTS (FROM modules c
          WHERE c.rank = m.rank AND c.parent_id = m.module_id AND c.call_order IS NOT NULL)
      AND m.class_name NOT IN ('Dropout', 'Flatten', 'Identity', 'Unflatten')
)
-- detector: large
SELECT i.rank, i.step, i.field, i.value, i.mean, i.low, i.high, i.batches, l.module, l.class_name,
    'large' AS how_, 'large' AS remedy_,
    CASE WHEN EXISTS (FROM loss_levels w
        WHERE w.rank = i.rank
          AND w.steps >= $length
          AND w.first_loss > 0
          AND w.late_loss > $nothing * w.first_loss)
        THEN 'error' ELSE 'warning' END AS severity
FROM inputs i JOIN leaves l ON l.rank = i.rank AND l.n = 1
WHERE i.enters AND i.least > $rms AND i.batches >= $batches
  -- the model scales it before its first layer
  AND NOT EXISTS (FROM scaled c WHERE c.rank = l.rank AND c.module_id = l.module_id)
  AND regexp_matches(l.class_name, '^(Linear|Conv[123]d|LSTM|GRU|RNN)$')
-- detector: narrow
SELECT i.rank, i.step, i.field, i.value, i.mean, i.low, i.high, i.batches, l.module, l.class_name,
    i.high - i.low AS spread, 'narrow' AS how_, 'narrow' AS remedy_, 'error' AS severity
FROM inputs i JOIN leaves l ON l.rank = i.rank AND l.n = 1
WHERE i.dims = $picture AND i.batches >= $batches
  AND i.high > i.low AND i.high - i.low < $spread
  -- an autoencoder's picture is its target too
  AND (i.enters OR i.loaded)
  AND NOT EXISTS (FROM scaled_up c WHERE c.rank = l.rank AND c.module_id = l.module_id)
  AND regexp_matches(l.class_name, '^(Linear|Conv[123]d)$')
-- together
ORDER BY step, rank
