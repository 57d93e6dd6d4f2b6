/*
code = "MO025"
name = "representation-collapse"
severity = "error"
phase = "forward"
signal = "batch_std"
message = "From step {step} on the outputs of {place} run together: their spread over the batch falls from {before} to {value}, {percent} % of their size, and stays there: every sample gets nearly the same output."
fix = "Keep a term that drives outputs apart (negatives, variance, stop-gradient on one branch), lower the learning rate, and look at what the loss rewards when all outputs are equal."
explains = ["plateau", "underfit", "vanishing-gradients", "dead-relu", "frozen-by-zero-gradient"]
[params.relative]
value = 0.03
doc = "Spread over the batch, as a share of the root mean square of the output."
[params.fall]
value = 0.05
doc = "And as a share of what the spread of the same output has been."
[params.start]
value = 0.1
doc = "Share of the root mean square that the spread must have had before."
[params.steps]
value = 5
unit = "steps"
doc = "Steps on end, to the end of the run."
[needs]
tables = ["probes", "modules"]
columns = ["probes.scale"]
steps = 8
[doc]
what = "An output of two dimensions whose samples differed, and from some step to the end hardly differ any more, both against their own size and against before."
why = "An output that is the same for every sample carries nothing about it; what follows can only learn a constant."
not_this = "Outputs that start equal (a layer initialised with zeros), that shrink as a whole, that have a large common part, or that come back."
source = "The share of the size follows the standard deviation of normalised outputs by which self-supervised learning watches for collapse."
*/
WITH looks AS (
    SELECT p.rank, p.module_id, p.tensor_id, p.step, median(p.value) AS spread, median(p.value / nullif(p.scale, 0)) AS share
    FROM probes p WHERE p.probe = 'batch_std' AND isfinite(p.value) AND isfinite(p.scale)
    GROUP BY p.rank, p.module_id, p.tensor_id, p.step
), history AS (
    SELECT *, row_number() OVER (PARTITION BY rank, tensor_id ORDER BY step) AS n FROM looks
), peaks AS (
    -- the level from which it fell
    SELECT rank, tensor_id, median(spread) AS level FROM history WHERE share >= $start GROUP BY rank, tensor_id
), low AS (
    SELECT h.*, p.level, h.share < $relative AND h.spread < $fall * p.level AS is_low FROM history h JOIN peaks p USING (rank, tensor_id)
), tails AS (
    SELECT rank, module_id, tensor_id, any_value(level) AS before, coalesce(max(n) FILTER (NOT is_low), 0) AS last_good, max(n) AS n FROM low GROUP BY rank, module_id, tensor_id
), collapsed AS (
    SELECT t.rank, t.module_id, t.tensor_id, t.before,
        -- back to where it last was near its level: what began there went on
        coalesce((SELECT max(l.step) FROM low l WHERE l.rank = t.rank AND l.tensor_id = t.tensor_id AND l.n <= t.last_good AND l.spread >= 0.8 * t.before), 0) AS foot,
        (SELECT min(l.step) FROM low l WHERE l.rank = t.rank AND l.tensor_id = t.tensor_id AND l.n > t.last_good) AS down,
        (SELECT median(l.spread) FROM low l WHERE l.rank = t.rank AND l.tensor_id = t.tensor_id AND l.n > t.last_good) AS value,
        (SELECT median(l.share) FROM low l WHERE l.rank = t.rank AND l.tensor_id = t.tensor_id AND l.n > t.last_good) AS share
    FROM tails t WHERE t.n - t.last_good >= $steps AND t.last_good >= 1
)
SELECT c.rank, CASE WHEN c.down - c.foot <= 1 THEN c.down ELSE c.foot END AS step, c.down, m.module, m.class_name, c.before, c.value, round(100 * c.share, 2) AS percent,
    CASE WHEN m.module = '' THEN 'the model (' || m.class_name || ')' ELSE m.module || ' (' || m.class_name || ')' END AS place, m.call_order
FROM collapsed c JOIN modules m ON m.rank = c.rank AND m.module_id = c.module_id
ORDER BY step, c.rank, m.call_order
