/*
code = "DA007"
name = "unshuffled-data"
severity = "error"
phase = "data"
signal = "entropy"
message = "The data are not shuffled. From step {step} on each of {batches} batches holds {held_}"
fix = "Use DataLoader(..., shuffle=True) or a random sampler for training, in every stage of it."
seeks = [
    """batches: phase <> 'eval' AND batch_size >= $batch AND (sampler = 'SequentialSampler' OR role = 'target' \
        AND entropy IS NOT NULL)""",
]
explains = ["loss-off-course", "plateau", "exploding-gradients", "overfit"]
[say.held_]
one_class = "nearly one class, one class after the other. The label entropy is {value} nats a batch, {whole} over the run."
one_level = "targets of one level, one group of samples after the other. Within a batch the variance of the targets is {value}, over the run {whole}. The loader takes the samples in their order."
one_group = "samples of one kind, one group after the other. The mean of field {field} moves by {value:.3g} from batch to batch, and by {whole:.3g} at most where samples are random. The loader takes them in their order."
[params.spread]
value = 0.3
unit = "of the variance"
doc = "Variance of the targets within a batch over that of the run, below which batches are of groups."
source = "arithmetic: batches of random samples have nearly all of it within"
[params.drift]
value = 0.8
doc = "Correlation of the mean target with that of the batch before, from which it is a series in time that drifts."
source = "convention: of this project, groups of two batches have a half"
[params.times]
value = 8
unit = "times"
doc = "Variance of the mean of a field from batch to batch, over the most that it is by chance."
source = "arithmetic: it is at most once where samples are random; eight times is beyond chance in twenty batches"
[params.groups]
value = 20
unit = "batches"
doc = "Batches whose means are compared."
source = "convention: of this project"
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
steps = 8
[doc]
what = "In a stretch of batches the labels are nearly all equal, while the run as a whole has several classes. Neighbouring batches hold the same class. Or the number to be predicted is nearly the same within each batch of a loader that takes samples in their order, and jumps from batch to batch. Or the mean of a field of inputs does."
why = "The model learns each class again and forgets the others: the loss is a saw."
not_this = "Batches of fewer than eight samples, data with one frequent class, tokens. Samplers that draw each batch from a random class. Series in time whose level drifts slowly. Samplers of the user's own."
source = "Entropy of a random batch is close to that of all data. Analysis of variance: the mean of random samples varies by the variance over their number."
*/
-- detector: one_class_after_the_other
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
SELECT rank, step, value, whole, batches, 'one_class' AS held_ FROM judged j
WHERE batches >= $least
  AND batches >= $part * (SELECT count(*) FROM labels l WHERE l.rank = j.rank)
  AND tops >= 2
  AND same > $same
QUALIFY row_number() OVER (PARTITION BY rank ORDER BY step) = 1
-- detector: one_level_after_the_other
WITH targets AS (
    SELECT b.rank, b.step, b.loader_id, b.field, s.sum / s.numel AS mean,
        s.sum_sq / s.numel - pow(s.sum / s.numel, 2) AS within,
        lag(s.sum / s.numel) OVER (PARTITION BY b.rank, b.loader_id, b.field ORDER BY b.step, b.seq) AS before
    FROM batches b
    JOIN tensor_stats s ON s.rank = b.rank AND s.step = b.step AND s.seq = b.seq AND s.tensor_id = b.tensor_id
    WHERE b.role = 'target'
      AND b.phase <> 'eval'
      AND b.sampler = 'SequentialSampler'
      AND contains(b.dtype, 'float')
      AND len(b.shape) <= 2
      AND b.batch_size >= $batch
      AND s.numel = b.batch_size
      AND s.nan_count + s.inf_count = 0
)
SELECT rank, min(step) AS step, avg(within) AS value, avg(within) + var_pop(mean) AS whole,
    count(*) AS batches, 'one_level' AS held_
FROM targets
GROUP BY rank, loader_id, field
HAVING count(*) >= $least
    AND avg(within) < $spread * (avg(within) + var_pop(mean))
    AND corr(mean, before) < $drift
-- detector: one_group_after_the_other
-- the mean of a random batch varies by no more than the variance of all elements over its samples
WITH inputs AS (
    SELECT b.rank, b.step, b.loader_id, b.field, b.batch_size, s.sum / s.numel AS mean,
        s.sum_sq / s.numel - pow(s.sum / s.numel, 2) AS within,
        lag(s.sum / s.numel) OVER (PARTITION BY b.rank, b.loader_id, b.field ORDER BY b.step, b.seq) AS before
    FROM batches b
    JOIN tensor_stats s ON s.rank = b.rank AND s.step = b.step AND s.seq = b.seq AND s.tensor_id = b.tensor_id
    WHERE b.role <> 'target'
      AND b.phase <> 'eval'
      AND b.sampler = 'SequentialSampler'
      AND contains(b.dtype, 'float')
      AND len(b.shape) >= 2
      AND b.batch_size >= $batch
      AND s.numel >= b.batch_size
      AND s.nan_count + s.inf_count = 0
)
SELECT rank, min(step) AS step, sqrt(var_pop(mean)) AS value, sqrt(avg(within) / min(batch_size)) AS whole,
    count(*) AS batches, field, 'one_group' AS held_
FROM inputs
GROUP BY rank, loader_id, field
HAVING count(*) >= $groups
    AND min(batch_size) = max(batch_size)
    AND var_pop(mean) * min(batch_size) > $times * avg(within)
    AND corr(mean, before) < $drift
-- together
QUALIFY row_number() OVER (PARTITION BY rank ORDER BY step) = 1
ORDER BY step, rank
