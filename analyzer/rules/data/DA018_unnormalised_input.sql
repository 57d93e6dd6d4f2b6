/*
code = "DA018"
name = "unnormalised-input"
severity = "warning"
phase = "data"
signal = "rms"
message = "{field} enters {module} ({class_name}) unnormalised: root mean square {value}, mean {mean}, values from {low} to {high} in all {batches} batches."
fix = "Scale the input to about mean 0 and standard deviation 1 (for bytes: divide by 255 first)."
explains = ["exploding-gradients", "dead-relu", "saturated-activation", "exploding-activations", "bad-init-scale", "frozen-by-zero-gradient", "representation-collapse", "shuffled-labels", "plateau"]
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
what = "A float input has a scale of tens or hundreds in all batches. Its first layer is linear or a convolution. This is an error where nothing is learnt."
why = "The first layer's gradients are larger than all others by that factor; one learning rate cannot fit both."
not_this = "A first layer that normalises or embeds, a model that scales its input before it, integers, a single batch."
source = "0-255 pixels have a root mean square above 70; unit scale is what initialisations assume."
*/
WITH inputs AS (
    SELECT b.rank, b.field, b.tensor_id, min(b.step) AS step, count(*) AS batches,
        median(sqrt(s.sum_sq / s.numel)) AS value, min(sqrt(s.sum_sq / s.numel)) AS least,
        median(s.sum / s.numel) AS mean, min(s.min) AS low, max(s.max) AS high
    FROM batches b
    JOIN tensor_stats s ON s.rank = b.rank AND s.step = b.step AND s.seq = b.seq AND s.tensor_id = b.tensor_id
    WHERE b.role = 'input'
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
), leaves AS (
    SELECT m.rank, m.module_id, m.module, m.class_name, m.call_order,
        row_number() OVER (PARTITION BY m.rank, m.model ORDER BY m.call_order) AS n
    FROM modules m
    WHERE m.call_order IS NOT NULL
      AND NOT EXISTS (FROM modules c
          WHERE c.rank = m.rank AND c.parent_id = m.module_id AND c.call_order IS NOT NULL)
      AND m.class_name NOT IN ('Dropout', 'Flatten', 'Identity', 'Unflatten')
)
SELECT i.rank, i.step, i.field, i.value, i.mean, i.low, i.high, i.batches, l.module, l.class_name,
    CASE WHEN EXISTS (FROM loss_levels w
        WHERE w.rank = i.rank
          AND w.steps >= $length
          AND w.first_loss > 0
          AND w.late_loss > $nothing * w.first_loss)
        THEN 'error' ELSE 'warning' END AS severity
FROM inputs i JOIN leaves l ON l.rank = i.rank AND l.n = 1
WHERE i.least > $rms AND i.batches >= $batches
  -- the model scales it before its first layer
  AND NOT EXISTS (FROM scaled c WHERE c.rank = l.rank AND c.module_id = l.module_id)
  AND regexp_matches(l.class_name, '^(Linear|Conv[123]d|LSTM|GRU|RNN)$')
ORDER BY i.step, i.rank
