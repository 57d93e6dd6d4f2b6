/*
code = "DA008"
name = "class-imbalance"
severity = "warning"
phase = "data"
signal = "label_counts"
message = "Class {top} holds {percent} % of the {total} targets of the run, {ratio} times as many as class {rare}: a model that always says {top} looks good."
fix = "Weight the loss, resample, or judge by a metric per class."
[params.ratio]
value = 10
unit = "times"
doc = "Most frequent over least frequent class."
[params.share]
value = 0.9
doc = "Share of one class."
[params.half]
value = 0.5
doc = "Share of the most frequent class without which a ratio says little: of many classes some are rare."
[params.least]
value = 200
unit = "targets"
doc = "Targets seen."
[needs]
tables = ["batches"]
[doc]
what = "One class with more than nine tenths of the targets, or half of them and ten times as many as the rarest class that occurs."
why = "The loss is dominated by one class; accuracy says little."
not_this = "Tokens of a text, many classes of which some are rare, few targets, a loss that weighs its classes. It is advice: data may be like that."
source = "Thresholds of the catalogue."
*/
WITH totals AS (
    SELECT rank, class, sum(count_) AS count_ FROM (
        SELECT rank, unnest(label_counts) AS count_, generate_subscripts(label_counts, 1) - 1 AS class FROM batches t
        WHERE role = 'target' AND phase <> 'eval' AND label_counts IS NOT NULL AND len(shape) = 1
            -- one target for each sample: tokens that were laid out in one row are more than the samples
            AND NOT EXISTS (SELECT 1 FROM batches i WHERE i.rank = t.rank AND i.step = t.step AND i.microbatch = t.microbatch
                AND i.role = 'input' AND len(i.shape) > 1 AND i.batch_size < t.batch_size))
    GROUP BY rank, class HAVING sum(count_) > 0
    UNION ALL
    -- floating-point targets of a binary loss that are all 0 or 1: then they are their own squares
    SELECT rank, class, sum(count_) AS count_ FROM (
        SELECT b.rank, unnest([0, 1]) AS class, unnest([s.numel - s.sum, s.sum]) AS count_, s.numel, s.sum, s.sum_sq, s.min
        FROM batches b JOIN tensor_stats s ON s.rank = b.rank AND s.step = b.step AND s.seq = b.seq AND s.tensor_id = b.tensor_id
        WHERE b.role = 'target' AND b.phase <> 'eval' AND b.label_counts IS NULL AND b.loss_op LIKE 'BinaryCrossEntropy%' AND list_product(b.shape::DOUBLE[]) = b.shape[1])
    GROUP BY rank, class HAVING sum(count_) > 0 AND max(abs(sum - sum_sq)) < 1e-6 * max(numel) AND min(min) >= 0
), judged AS (
    SELECT rank, arg_max(class, count_) AS top, arg_min(class, count_) AS rare, max(count_) / min(count_) AS ratio, max(count_) / sum(count_) AS value, sum(count_)::BIGINT AS total, count(*) AS classes
    FROM totals GROUP BY rank
), weighted AS (
    SELECT DISTINCT rank FROM batches WHERE role = 'target' AND phase <> 'eval' AND weighted
)
SELECT rank, 0 AS step, top, rare, round(ratio)::BIGINT AS ratio, value, round(100 * value)::INT AS percent, total FROM judged
WHERE rank NOT IN (FROM weighted) AND classes BETWEEN 2 AND 100 AND total >= $least AND (value > $share OR (ratio > $ratio AND value > $half AND total >= 20 * classes))
ORDER BY rank
