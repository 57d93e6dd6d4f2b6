/*
code = "DI010"
name = "unsynced-batchnorm"
severity = "warning"
phase = "forward"
signal = "sum"
message = "{module} ({class_name}) normalises with {batch} samples of its own rank only, while {ranks} ranks average their gradients; {apart_}."
fix = "Convert the model with torch.nn.SyncBatchNorm.convert_sync_batchnorm before wrapping it, or use GroupNorm or LayerNorm."
seeks = [
    "modules: rank <> 0 AND regexp_matches(class_name, '^BatchNorm[123]d$')",
    "collectives: op = 'DistributedDataParallel'",
]
explains = ["batchnorm-small-batch"]
[say.apart_]
statistics_differ = "its running statistics differ between ranks"
variances_differ = "its running variance is {high:.3g} on one rank and {low:.3g} on another"
[params.batch]
value = 4
unit = "samples"
doc = "Samples per rank up to which the statistics are too noisy."
source = "convention: Wu and He (2018), Group Normalization: the error of batch norm on ImageNet rises from 23.6 % at 32 samples to 27.3 % at 4"
[params.times]
value = 1.5
unit = "times"
doc = "How much larger the running variance is on one rank than on another, in most looks of the second half."
source = "convention: of this project, ranks of one data set differ by less"
[params.looks]
value = 5
unit = "looks"
doc = "Looks at the running variances that such a judgement needs."
source = "convention: of this project, fewer do not show that it lasts"
[needs]
tables = ["batches", "modules", "collectives"]
[doc]
what = "A batch norm under DistributedDataParallel sees no more than a few samples on each rank. Or its running variance develops differently on each rank, as with broadcast_buffers=False where the ranks' data differ."
why = "Mean and variance of a handful of samples are noise, and every rank has its own."
not_this = "Larger batches per rank with the same statistics, SyncBatchNorm."
source = "Documentation of SyncBatchNorm."
*/
WITH fed AS (
    SELECT rank, median(batch_size)::BIGINT AS batch
    FROM batches
    WHERE role = 'input' AND phase = 'data'
    GROUP BY rank
)
, variances AS (
    SELECT s.rank, s.step, t.tensor_name, any_value(m.module) AS module,
        any_value(s.sum / s.numel) AS variance
    FROM tensor_stats s
    JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id
    JOIN modules m ON m.rank = t.rank AND m.module_id = t.module_id
    WHERE t.kind = 'buffer'
      AND t.tensor_name LIKE '%running_var'
      AND regexp_matches(m.class_name, '^BatchNorm[123]d$')
      AND s.nan_count + s.inf_count = 0
    GROUP BY ALL
), spread AS (
    SELECT step, tensor_name, any_value(module) AS module, max(variance) / nullif(min(variance), 0) AS times,
        max(variance) AS high, min(variance) AS low
    FROM variances
    WHERE step >= (SELECT max(step) FROM variances) / 2
    GROUP BY step, tensor_name
    HAVING count(DISTINCT rank) > 1
), apart AS (
    SELECT module, median(times) AS times, median(high) AS high, median(low) AS low
    FROM spread
    GROUP BY module
    HAVING count(*) >= $looks AND median(times) > $times
)
SELECT 0 AS rank, 0 AS step, m.module, m.class_name, max(f.batch) AS batch, max(f.batch) AS value,
    count(DISTINCT m.rank) AS ranks, any_value(a.high) AS high, any_value(a.low) AS low,
    CASE WHEN any_value(a.times) IS NULL THEN 'statistics_differ' ELSE 'variances_differ' END AS apart_
FROM modules m JOIN fed f ON f.rank = m.rank LEFT JOIN apart a ON a.module = m.module
WHERE regexp_matches(m.class_name, '^BatchNorm[123]d$')
  AND EXISTS (SELECT 1 FROM collectives WHERE op = 'DistributedDataParallel')
GROUP BY m.module, m.class_name
HAVING count(DISTINCT m.rank) > 1 AND (max(f.batch) <= $batch OR any_value(a.times) IS NOT NULL)
QUALIFY row_number() OVER (ORDER BY min(m.call_order)) = 1
