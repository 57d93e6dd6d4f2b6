/*
code = "MO020"
name = "batchnorm-not-tracking"
severity = "error"
phase = "forward"
signal = "settings"
message = "{module} ({class_name}) {value}: in eval mode it does not use the statistics of the training."
fix = "Use track_running_stats=True and a momentum between 0.01 and 0.3."
[needs]
tables = ["modules"]
columns = ["modules.settings"]
[doc]
what = "A batch norm in train mode that keeps no running statistics, never changes them (momentum 0) or only remembers the last batch (momentum 1)."
why = "Evaluation then depends on the batch at hand, on initial values, or on one batch."
not_this = "momentum=None (a cumulative mean), batch norms that never run in train mode."
source = "Definition of running statistics."
*/
WITH norms AS (
    SELECT m.*, json_extract(settings, '$.track_running_stats')::BOOLEAN AS tracks, json_extract(settings, '$.momentum')::DOUBLE AS momentum
    FROM modules m WHERE regexp_matches(class_name, '^(SyncBatchNorm|BatchNorm[123]d)$') AND call_order IS NOT NULL AND settings IS NOT NULL
      AND coalesce((SELECT bool_or(training) FROM module_modes q WHERE q.rank = m.rank AND q.module_id = m.module_id AND q.grad), true)
)
SELECT rank, 0 AS step, module, class_name,
    CASE WHEN NOT tracks THEN 'keeps no running statistics' WHEN momentum = 0 THEN 'never changes its running statistics (momentum 0)' ELSE 'remembers only the last batch (momentum 1)' END AS value
FROM norms WHERE NOT tracks OR momentum IN (0, 1) ORDER BY rank, call_order
