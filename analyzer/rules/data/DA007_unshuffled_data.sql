/*
code = "DA007"
name = "unshuffled-data"
severity = "error"
phase = "data"
signal = "entropy"
message = "Each batch holds nearly one class (label entropy {value} nats a batch, {whole} over the run), one class after the other: the data are not shuffled."
fix = "Use DataLoader(..., shuffle=True) or a random sampler for training."
explains = ["loss-spike", "plateau", "divergence", "exploding-gradients", "overfit"]
[params.share]
value = 0.3
doc = "Entropy of a batch over that of the run below which batches are sorted."
[params.least]
value = 8
unit = "batches"
doc = "Batches."
[needs]
tables = ["batches"]
columns = ["batches.label_counts"]
steps = 8
[doc]
what = "Labels of single batches that are nearly all equal while the run as a whole has several classes, and neighbouring batches that hold the same class."
why = "The model learns each class anew and forgets the others: the loss is a saw."
not_this = "Batches of fewer than eight samples, data with one frequent class, tokens, samplers that draw each batch from a random class."
source = "Entropy of a random batch is close to that of all data."
*/
WITH labels AS (
    SELECT rank, step, seq, label_counts, entropy, list_position(label_counts, list_max(label_counts)) - 1 AS top, row_number() OVER (PARTITION BY rank ORDER BY step, microbatch, seq) AS n
    FROM batches WHERE role = 'target' AND phase <> 'eval' AND entropy IS NOT NULL AND len(shape) = 1 AND batch_size >= 8
), totals AS (
    SELECT rank, class, sum(count_) AS count_ FROM (SELECT rank, unnest(label_counts) AS count_, generate_subscripts(label_counts, 1) - 1 AS class FROM labels) GROUP BY rank, class
), shares AS (
    SELECT rank, count_ / sum(count_) OVER (PARTITION BY rank) AS share FROM totals
), whole AS (
    SELECT rank, -sum(share * ln(share)) FILTER (share > 0) AS whole FROM shares GROUP BY rank
), judged AS (
    SELECT l.rank, median(l.entropy) AS value, count(*) AS batches, min(l.step) AS step,
        avg((l.top = p.top)::INT) AS same, count(DISTINCT l.top) AS tops
    FROM labels l LEFT JOIN labels p ON p.rank = l.rank AND p.n = l.n - 1 GROUP BY l.rank
)
SELECT j.rank, j.step, j.value, w.whole, j.batches FROM judged j JOIN whole w ON w.rank = j.rank
WHERE j.batches >= $least AND w.whole > 0.4 AND j.value < $share * w.whole AND j.tops >= 2 AND j.same > 0.5
ORDER BY j.step, j.rank
