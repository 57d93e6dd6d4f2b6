/*
code = "MO019"
name = "batchnorm-small-batch"
severity = "error"
phase = "forward"
signal = "batch_size"
message = "{module} ({class_name}) normalises over batches of {value} samples: its statistics are mostly noise."
fix = "Use GroupNorm or LayerNorm, a larger batch, or SyncBatchNorm across ranks."
explains = ["loss-spike", "plateau", "overfit"]
[params.most]
value = 4
unit = "samples"
doc = "Batch size up to which statistics are noise."
[needs]
tables = ["batches", "modules"]
columns = ["batches.batch_size"]
steps = 5
[doc]
what = "Batch norm in train mode with four samples a batch or fewer, in most steps."
why = "Mean and variance over so few samples change from step to step; running statistics do not fit what training saw."
not_this = "Batch norms in eval mode, pictures (many positions count as samples; said as a warning), a small last batch."
source = "Threshold of the catalogue: 4 samples a batch."
*/
WITH sizes AS (
    SELECT rank, median(size)::BIGINT AS value FROM (
        SELECT rank, step, microbatch, max(batch_size) AS size FROM batches WHERE role IN ('input', 'field') AND phase = 'data' AND batch_size IS NOT NULL AND len(shape) >= 2 GROUP BY ALL) GROUP BY rank
), norms AS (
    SELECT m.rank, m.module_id, m.module, m.class_name, m.call_order FROM modules m
    WHERE regexp_matches(m.class_name, '^BatchNorm[123]d$') AND m.call_order IS NOT NULL
      AND coalesce((SELECT bool_or(training) FROM module_modes q WHERE q.rank = m.rank AND q.module_id = m.module_id AND q.grad), true)
)
SELECT n.rank, 0 AS step, n.module, n.class_name, s.value, CASE WHEN n.class_name = 'BatchNorm1d' THEN 'error' ELSE 'warning' END AS severity
FROM norms n JOIN sizes s ON s.rank = n.rank WHERE s.value <= $most
ORDER BY n.rank, severity, n.call_order
