/*
code = "MO020"
name = "batchnorm-not-tracking"
severity = "error"
phase = "forward"
signal = "settings"
message = "{module} ({class_name}) {what_}: in eval mode it does not use the statistics of the training."
fix = "{remedy_}"
seeks = [
    "modules: class_name IN ('SyncBatchNorm', 'BatchNorm1d', 'BatchNorm2d', 'BatchNorm3d') AND call_order IS NOT NULL",
]
explains = ["overfit"]
[say.what_]
no_statistics = "keeps no running statistics"
never_changed = "never changes its running statistics (momentum 0)"
last_batch = "remembers only the last batch (momentum 1)"
nearly_last_batch = "remembers little more than the last batch (momentum 0.9 or more)"
stopped = "has stopped changing its running statistics though it still counts its batches (momentum 0 from there on)"
left_out = "has the running statistics that it was made with (mean 0, variance 1), while weights were put into its model {loads} times without them ({missing} entries were missing)"
[say.remedy_]
momentum = "Use track_running_stats=True and a momentum between 0.01 and 0.3; a schedule of the momentum must end above 0."
take_buffers = "Hand over the buffers too: state_dict() has the running means and variances, named_parameters() has not. Where models are averaged, average these as well."
[params.least]
value = 5
unit = "steps"
doc = "Steps in a row, to the end of the run, with statistics that are equal to the last bit. Meanwhile the batches are counted."
source = "convention: of this project, fewer may be a block under no_grad"
[params.moved]
value = 1e-4
doc = "Share by which the statistics changed in the last step before: what converges creeps up to its value and does not stop from full speed."
source = "arithmetic: a momentum of 0.1 and a batch that differs by a thousandth move the statistics by as much"
[params.loads]
value = 3
unit = "times"
doc = "Times that weights were put into a model without its running statistics."
source = "convention: of this project, once or twice may be a beginning from weights of elsewhere"
[params.half]
value = 0.5
unit = "of the looks"
doc = "Share of the looks."
source = "arithmetic: a majority is more than a half"
[params.kept]
value = 0.9
doc = "Momentum from which it is the share that is kept."
source = "convention: PyTorch's default is 0.1, that of other libraries 0.9 and more"
[params.unclear]
value = 0.95
doc = "Momentum below which that is only a warning."
source = "convention: of this project, a share of 0.95 can only be what is kept"
[needs]
tables = ["modules"]
columns = ["modules.settings"]
[doc]
what = "Weights are put into a model again and again without its running statistics, and it is evaluated with those that it was made with. Or a batch norm in train mode keeps no running statistics. Or it never changes them (momentum 0, from the beginning or from a step on). Or it hardly remembers more than the last batch (momentum 0.9 or more; a warning below 0.95)."
why = "Evaluation then depends on the batch at hand, on initial values or old ones, or on one batch."
not_this = "momentum=None (a cumulative mean). Batch norms that never run in train mode, unless their model gets weights without them, or go to eval mode (they no longer count batches). Statistics that have converged."
source = "Definition of running statistics; another library's momentum is the share that is kept, 1 minus this one."
*/
-- detector: by_itself
WITH norms AS (
    SELECT m.*, json_extract(settings, '$.track_running_stats')::BOOLEAN AS tracks,
        json_extract(settings, '$.momentum')::DOUBLE AS momentum
    FROM modules m
    WHERE regexp_matches(class_name, '^(SyncBatchNorm|BatchNorm[123]d)$')
      AND call_order IS NOT NULL
      AND settings IS NOT NULL
      AND coalesce((SELECT bool_or(training)
          FROM module_modes q
          WHERE q.rank = m.rank AND q.module_id = m.module_id AND q.grad),
          true)
), kept AS (
    -- one row a step and batch norm: both statistics and how many batches were counted
    SELECT n.rank, n.module_id, n.module, n.class_name, n.call_order, s.step,
        max(s.sum_sq) FILTER (t.tensor_name LIKE '%running_var') AS var_,
            max(s.sum) FILTER (t.tensor_name LIKE '%running_mean') AS mean_,
        max(s.sum_sq) FILTER (t.tensor_name LIKE '%running_mean') AS mean_sq,
            max(s.max) FILTER (t.tensor_name LIKE '%num_batches_tracked') AS counted
    FROM norms n
    JOIN tensors t ON t.rank = n.rank AND t.module_id = n.module_id AND t.kind = 'buffer'
    JOIN tensor_stats s ON s.rank = t.rank AND s.tensor_id = t.tensor_id
    WHERE n.tracks AND n.momentum > 0 GROUP BY ALL
), changes AS (
    SELECT *, abs(var_ - lag(var_) OVER w) / var_ AS moved, counted > lag(counted) OVER w AS counts,
        lag(step) OVER w AS before,
        var_ = lag(var_) OVER w AND mean_ = lag(mean_) OVER w AND mean_sq = lag(mean_sq) OVER w AS same
    FROM kept WHERE isfinite(var_) AND var_ > 0 WINDOW w AS (PARTITION BY rank, module_id ORDER BY step)
), ends AS (
    SELECT rank, module_id, max(step) FILTER (NOT same) AS since,
        max_by(before, step) FILTER (NOT same) AS before, max_by(moved, step) FILTER (NOT same) AS moved
    FROM changes
    GROUP BY rank, module_id
), stopped AS (
    -- where not every step was looked at, what was moved between the last two looks that differ may have
    -- stopped between them
    SELECT c.rank, min(c.step) AS step,
        CASE WHEN e.since = e.before + 1 THEN min(c.step) ELSE e.before + 1 END AS step_lower, c.module,
        c.class_name, c.call_order
    FROM changes c
    JOIN ends e ON e.rank = c.rank AND e.module_id = c.module_id
    WHERE c.step > e.since AND e.moved > $moved
    GROUP BY c.rank, c.module, c.class_name, c.call_order, e.since, e.before
    HAVING count(*) FILTER (c.counts) >= greatest($least, $half * count(*))
)
SELECT rank, 0 AS step, module, class_name, call_order, 'momentum' AS remedy_,
    CASE WHEN NOT tracks THEN 'no_statistics' WHEN momentum = 0 THEN 'never_changed'
        WHEN momentum = 1 THEN 'last_batch' ELSE 'nearly_last_batch' END AS what_,
    CASE WHEN momentum >= $kept AND momentum < $unclear THEN 'warning' ELSE 'error' END AS severity
FROM norms WHERE NOT tracks OR momentum = 0 OR momentum BETWEEN $kept AND 1
UNION ALL BY NAME
SELECT rank, step, step_lower, module, class_name, call_order, 'momentum' AS remedy_, 'stopped' AS what_,
    'error' AS severity
FROM stopped
-- detector: left_out
WITH partial AS (
    SELECT rank, max(module_id) AS module_id, min(step) AS step, count(*) AS loads, max(missing) AS missing
    FROM checkpoints
    WHERE action = 'weights' AND missing > 0 AND changed > 0
    -- a model that has not been called yet has no number, and the next one does
    GROUP BY rank, content
    HAVING count(DISTINCT module_id) = 1
), initial AS (
    SELECT t.rank, t.module_id
    FROM tensors t JOIN tensor_stats s ON s.rank = t.rank AND s.tensor_id = t.tensor_id
    WHERE t.kind = 'buffer'
    GROUP BY t.rank, t.module_id
    HAVING bool_and(CASE WHEN t.tensor_name LIKE '%running_var' THEN s.min = 1 AND s.max = 1
            WHEN t.tensor_name LIKE '%running_mean' THEN s.sum_sq = 0 ELSE s.max = 0 END)
      AND count(DISTINCT s.step) >= $least
)
SELECT m.rank, p.step, m.module, m.class_name, m.call_order, 'take_buffers' AS remedy_, 'left_out' AS what_,
    'error' AS severity, p.loads, p.missing
FROM partial p
JOIN module_tree u ON u.rank = p.rank AND u.ancestor_id = p.module_id
JOIN modules m ON m.rank = u.rank AND m.module_id = u.module_id
JOIN initial i ON i.rank = m.rank AND i.module_id = m.module_id
WHERE p.loads >= $loads
  AND regexp_matches(m.class_name, '^(SyncBatchNorm|BatchNorm[123]d)$')
  AND EXISTS (FROM module_modes q WHERE q.rank = m.rank AND q.module_id = m.module_id AND NOT q.training)
-- together
SELECT * FROM found ORDER BY step, rank, call_order
