/*
code = "MO026"
name = "attention-entropy-collapse"
severity = "error"
phase = "forward"
signal = "attention_sure"
message = "From step {step} on {percent} % of the rows of attention in {place} give all their weight to one key (before: {percent_before} %; entropy {entropy_before} -> {entropy} nats): its logits are so far apart that the softmax passes no gradient back."
fix = "Normalise queries and keys, scale logits by 1/sqrt(d), lower the learning rate or warm up longer, and look at what made the logits grow."
explains = ["vanishing-gradients", "plateau", "underfit", "frozen-by-zero-gradient"]
[params.sure]
value = 0.9
doc = "Share of rows with a weight above 1 - 2^-20."
[params.before]
value = 0.5
doc = "Share that there may have been before."
[params.steps]
value = 4
unit = "steps"
doc = "Steps on end, to the end of the run."
[needs]
tables = ["probes"]
columns = ["probes.scale"]
steps = 6
[doc]
what = "Nearly all rows of an attention put all their weight on a single key, from some step to the end, and did not before."
why = "The gradient through a softmax that is sure is below the resolution of float32: queries and keys stop learning, and instability follows."
not_this = "Rows that may see one key only, attention that is sharp but still has a gradient, attention that was like this from the beginning."
source = "Arithmetic of float32: with one weight above 1 - 2^-20 every other is below 1e-6 of it."
*/
WITH looks AS (
    SELECT rank, coalesce(module_id, -1) AS module_id, step, avg(value) FILTER (probe = 'attention_sure') AS sure, avg(value) FILTER (probe = 'attention_entropy') AS entropy
    FROM probes WHERE probe IN ('attention_sure', 'attention_entropy') AND isfinite(value) GROUP BY ALL
), tails AS (
    SELECT rank, module_id, coalesce(max(step) FILTER (sure < $sure), -1) AS good FROM looks GROUP BY rank, module_id
), found AS (
    SELECT l.rank, l.module_id, min(l.step) FILTER (l.step > t.good) AS step, count(*) FILTER (l.step > t.good) AS steps_, median(l.sure) FILTER (l.step > t.good) AS value,
        median(l.sure) FILTER (l.step <= t.good) AS before, median(l.entropy) FILTER (l.step > t.good) AS entropy, median(l.entropy) FILTER (l.step <= t.good) AS entropy_before
    FROM looks l JOIN tails t USING (rank, module_id) GROUP BY l.rank, l.module_id
)
SELECT f.rank, f.step, m.module, f.value, floor(100 * f.value)::INT AS percent, floor(100 * f.before)::INT AS percent_before, f.entropy, f.entropy_before,
    CASE WHEN m.module IS NULL THEN 'code outside modules' WHEN m.module = '' THEN 'the model (' || m.class_name || ')' ELSE m.module || ' (' || m.class_name || ')' END AS place
FROM found f LEFT JOIN modules m ON m.rank = f.rank AND m.module_id = f.module_id
WHERE f.steps_ >= $steps AND f.before <= $before
ORDER BY f.step, f.rank, m.call_order
