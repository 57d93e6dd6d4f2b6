/*
code = "DI010"
name = "unsynced-batchnorm"
severity = "warning"
phase = "forward"
signal = "sum"
message = "{module} ({class_name}) normalises with {batch} samples of its own rank only, while {ranks} ranks average their gradients; its running statistics differ between ranks."
fix = "Convert the model with torch.nn.SyncBatchNorm.convert_sync_batchnorm before wrapping it, or use GroupNorm or LayerNorm."
explains = ["batchnorm-small-batch"]
[params.batch]
value = 4
unit = "samples"
doc = "Samples per rank up to which the statistics are too noisy."
[needs]
tables = ["batches", "modules", "collectives"]
[doc]
what = "A batch norm under DistributedDataParallel sees no more than a few samples on each rank."
why = "Mean and variance of a handful of samples are noise, and every rank has its own."
not_this = "Larger batches per rank, SyncBatchNorm."
source = "Documentation of SyncBatchNorm."
*/
WITH fed AS (
    SELECT rank, median(batch_size)::BIGINT AS batch FROM batches WHERE role = 'input' AND phase = 'data' GROUP BY rank
)
SELECT 0 AS rank, 0 AS step, m.module, m.class_name, max(f.batch) AS batch, max(f.batch) AS value, count(DISTINCT m.rank) AS ranks
FROM modules m JOIN fed f ON f.rank = m.rank
WHERE regexp_matches(m.class_name, '^BatchNorm[123]d$') AND EXISTS (SELECT 1 FROM collectives WHERE op = 'DistributedDataParallel')
GROUP BY m.module, m.class_name HAVING count(DISTINCT m.rank) > 1 AND max(f.batch) <= $batch
QUALIFY row_number() OVER (ORDER BY min(m.call_order)) = 1
