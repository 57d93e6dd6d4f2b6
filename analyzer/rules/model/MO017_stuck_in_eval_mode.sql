/*
code = "MO017"
name = "stuck-in-eval-mode"
severity = "error"
phase = "forward"
signal = "training"
message = "From step {step} on the model trains in eval mode{after}: dropout is off and batch norm uses and keeps its old statistics."
fix = "Call model.train() before the training loop goes on (after each evaluation)."
explains = ["overfit", "batchnorm-not-tracking", "shuffled-labels", "silent-data-corruption"]
[params.least]
value = 3
unit = "steps"
doc = "Steps on end."
[params.drawn]
value = 5
unit = "steps"
doc = "Steps in train mode by which is told that they draw random numbers."
[needs]
tables = ["steps", "modules"]
columns = ["steps.training"]
steps = 4
[doc]
what = "Training forwards with training=False to the end of the run, after steps with training=True; or in all steps of a model that has dropout or batch norm, or that draws random numbers in train mode only (a warning, unless its batch norms have never seen a batch)."
why = "Regularisation and running statistics stop, without an error."
not_this = "Models without such layers, single frozen batch norms inside a model in train mode, evaluation."
source = "Flags; no threshold but persistence."
*/
WITH modes AS (
    SELECT rank, step, bool_or(training) AS training, row_number() OVER (PARTITION BY rank ORDER BY step) AS n FROM steps
    WHERE training IS NOT NULL AND microbatches >= 1 GROUP BY rank, step
), ends AS (
    SELECT rank, max(step) FILTER (training) AS last_train, max(step) AS last, count(*) FILTER (NOT training) AS off_ FROM modes GROUP BY rank
), drawing AS (
    SELECT m.rank, m.training, s.rng <> lag(s.rng) OVER (PARTITION BY m.rank ORDER BY m.step) AS drew
    FROM modes m JOIN (SELECT rank, step, max(rng) AS rng FROM steps GROUP BY rank, step) s ON s.rank = m.rank AND s.step = m.step
), sensitive AS (
    SELECT rank FROM modules WHERE regexp_matches(class_name, '^(Dropout|AlphaDropout|FeatureAlphaDropout|BatchNorm|SyncBatchNorm|LazyBatchNorm)') AND call_order IS NOT NULL
    UNION
    -- or dropout by function: every step in train mode draws random numbers, and few in eval mode do
    SELECT rank FROM drawing GROUP BY rank
    HAVING count(drew) FILTER (training) >= $drawn AND avg(drew::INTEGER) FILTER (training) > 0.9 AND avg(drew::INTEGER) FILTER (NOT training) < 0.5
), untouched AS (
    -- batch norms that normalise by the mean 0 and variance 1 that they were made with
    SELECT t.rank FROM tensor_stats s JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id
    WHERE t.kind = 'buffer' AND t.tensor_name LIKE '%num_batches_tracked' AND t.module_id IN (
        SELECT m.module_id FROM modules m WHERE m.rank = t.rank AND m.class_name LIKE '%BatchNorm%' AND m.call_order IS NOT NULL)
    GROUP BY t.rank HAVING max(s.max) = 0
)
SELECT e.rank, (SELECT min(step) FROM modes m WHERE m.rank = e.rank AND m.step > coalesce(e.last_train, -1)) AS step, '' AS module, e.off_ AS value,
    CASE WHEN e.last_train IS NULL THEN '' ELSE ' (it was in train mode until step ' || e.last_train || ')' END AS after,
    CASE WHEN e.last_train IS NULL AND e.rank NOT IN (SELECT rank FROM untouched) THEN 'warning' ELSE 'error' END AS severity
FROM ends e JOIN sensitive s ON s.rank = e.rank
WHERE NOT (SELECT training FROM modes m WHERE m.rank = e.rank AND m.step = e.last)
  AND (SELECT count(*) FROM modes m WHERE m.rank = e.rank AND m.step > coalesce(e.last_train, -1)) >= $least
ORDER BY step, e.rank
