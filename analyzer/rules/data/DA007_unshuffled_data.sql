/*
code = "DA007"
name = "unshuffled-data"
severity = "error"
phase = "data"
signal = "entropy"
message = "The data are not shuffled. From step {step} on each of {batches} batches holds nearly one class, one class after the other. The label entropy is {value} nats a batch, {whole} over the run."
fix = "Use DataLoader(..., shuffle=True) or a random sampler for training, in every stage of it."
explains = ["loss-off-course", "plateau", "exploding-gradients", "overfit"]
[params.share]
value = 0.3
doc = "Entropy of a batch over that of the run below which batches are sorted."
source = "convention: of this project, a shuffled batch has nearly the entropy of all data; a batch of one class has none"
[params.least]
value = 8
unit = "batches"
doc = "Batches."
source = "convention: of this project, fewer batches may be alike by chance"
[params.part]
value = 0.2
doc = "Share of the batches of the run that such a stretch holds."
source = "convention: of this project, a fifth of a run is more than the last part of an epoch"
[params.batch]
value = 8
unit = "samples"
doc = "Samples of a batch whose entropy can be told."
source = "convention: of this project, of fewer it is too small"
[params.around]
value = 4
unit = "batches"
doc = "Batches on either side, over which an entropy is smoothed."
source = "convention: of this project, nine of them"
[params.entropy]
value = 0.4
unit = "nats"
doc = "Entropy of all labels from which there is something to sort."
source = "convention: of this project, two classes of 6 to 1 have 0.41"
[params.same]
value = 0.5
unit = "of the batches"
doc = "Share in which one and the same class comes most often."
source = "arithmetic: half"
[needs]
tables = ["batches"]
columns = ["batches.label_counts"]
steps = 8
[doc]
what = "In a stretch of batches the labels are nearly all equal, while the run as a whole has several classes. Neighbouring batches hold the same class."
why = "The model learns each class again and forgets the others: the loss is a saw."
not_this = "Batches of fewer than eight samples, data with one frequent class, tokens. Samplers that draw each batch from a random class."
source = "Entropy of a random batch is close to that of all data."
*/
WITH labels AS (
    SELECT rank, step, seq, label_counts, entropy,
        list_position(label_counts, list_max(label_counts)) - 1 AS top,
        row_number() OVER (PARTITION BY rank ORDER BY step, microbatch, seq) AS n
    FROM batches
    WHERE role = 'target'
      AND phase <> 'eval'
      AND entropy IS NOT NULL
      AND len(shape) = 1
      AND batch_size >= $batch
), totals AS (
    SELECT rank, class, sum(count_) AS count_
    FROM (SELECT rank, unnest(label_counts) AS count_, generate_subscripts(label_counts, 1) - 1 AS class
        FROM labels)
    GROUP BY rank, class
), shares AS (
    SELECT rank, count_ / sum(count_) OVER (PARTITION BY rank) AS share FROM totals
), whole AS (
    SELECT rank, -sum(share * ln(share)) FILTER (share > 0) AS whole FROM shares GROUP BY rank
), looked AS (
    -- a batch in which one class ends and the next begins holds two: most of the nine around it decide
    SELECT l.*, l.entropy < $share * w.whole AS one_class, w.whole,
        median(l.entropy) OVER (PARTITION BY l.rank
            ORDER BY l.n ROWS BETWEEN $around PRECEDING AND $around FOLLOWING) < $share * w.whole AS sorted_
    FROM labels l JOIN whole w ON w.rank = l.rank WHERE w.whole > $entropy
), stretches AS (
    SELECT *, n - row_number() OVER (PARTITION BY rank, sorted_ ORDER BY n) AS stretch,
        lag(top) OVER (PARTITION BY rank ORDER BY n) AS top_before
    FROM looked
), judged AS (
    SELECT rank, min(step) FILTER (one_class) AS step, median(entropy) AS value, any_value(whole) AS whole,
        count(*) AS batches,
        avg((top = top_before)::INT) AS same, count(DISTINCT top) AS tops
    FROM stretches WHERE sorted_ GROUP BY rank, stretch
)
SELECT rank, step, value, whole, batches FROM judged j
WHERE batches >= $least
  AND batches >= $part * (SELECT count(*) FROM labels l WHERE l.rank = j.rank)
  AND tops >= 2
  AND same > $same
QUALIFY row_number() OVER (PARTITION BY rank ORDER BY step) = 1 ORDER BY step, rank
