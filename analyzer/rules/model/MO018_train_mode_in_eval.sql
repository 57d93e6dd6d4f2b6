/*
code = "MO018"
name = "train-mode-in-eval"
severity = "error"
phase = "eval"
signal = "training"
message = "In the evaluation before step {next} {module} ({class_name}) runs in train mode: {consequence}."
fix = "Call model.eval() before the evaluation and model.train() after it."
[params.stretch]
value = 5
unit = "steps"
doc = "Steps on end, each with forwards without gradients: no evaluation, but a part of the training step that joined it for a while."
[needs]
tables = ["module_modes", "steps"]
columns = ["module_modes.training"]
[doc]
what = "Dropout or batch norm with training=True in forwards without gradients that come in bouts, between training steps."
why = "Results are noisy, and batch norm learns from the evaluation data."
not_this = "A forward without gradients at every step, of the run or of a stage of it (a teacher, a generator, sampling), one look at the batch that was just trained on, a block under no_grad inside a training forward, several optimizers, dropout of probability zero."
source = "Flags."
*/
WITH bouts AS (
    SELECT rank, count(*) FILTER (eval_forwards > 0) AS bouts, count(*) AS total, max(eval_forwards) AS most FROM (
        SELECT rank, step, sum(coalesce(eval_forwards, 0)) AS eval_forwards FROM steps GROUP BY rank, step) GROUP BY rank
), stretches AS (
    SELECT rank, step, count(*) OVER (PARTITION BY rank, island) AS long FROM (
        SELECT rank, step, row_number() OVER (PARTITION BY rank ORDER BY step) - row_number() OVER (PARTITION BY rank, sum(coalesce(eval_forwards, 0)) > 0 ORDER BY step) AS island,
            sum(coalesce(eval_forwards, 0)) > 0 AS looked FROM steps GROUP BY rank, step) WHERE looked
), one AS (
    SELECT rank FROM param_groups GROUP BY rank HAVING count(DISTINCT optimizer_id) = 1
)
SELECT m.rank, greatest(m.step, 0) AS step, m.seq, d.module, d.class_name, m.step AS next, true AS value,
    CASE WHEN d.class_name LIKE '%Dropout%' THEN 'it drops units at random' ELSE 'it normalises by the batch and updates its running statistics' END AS consequence
FROM module_modes m JOIN modules d ON d.rank = m.rank AND d.module_id = m.module_id JOIN bouts b ON b.rank = m.rank JOIN one ON one.rank = m.rank
WHERE NOT m.grad AND m.training AND regexp_matches(d.class_name, '^(Dropout|AlphaDropout|BatchNorm|SyncBatchNorm)')
  AND coalesce(json_extract(d.settings, '$.p')::DOUBLE, 1) > 0 AND b.bouts <= 0.5 * b.total
  AND (m.rank, m.step) NOT IN (SELECT (rank, step) FROM looks_back)
  AND (m.rank, m.step) NOT IN (SELECT (rank, step) FROM stretches WHERE long >= $stretch)
  -- a block that runs without gradients inside a forward with them is part of the training
  AND NOT EXISTS (
      SELECT 1 FROM module_tree t JOIN module_modes o ON o.rank = t.rank AND o.module_id = t.ancestor_id
      WHERE t.rank = m.rank AND t.module_id = m.module_id AND t.ancestor_id <> t.module_id GROUP BY t.ancestor_id HAVING bool_and(o.grad))
  -- dropout alone in training mode inside a module that is in eval mode was switched on by hand, to sample: what counts is the
  -- mode in which that module itself ran last before, it may have been in another one earlier in the same evaluation
  AND NOT (d.class_name LIKE '%Dropout%' AND coalesce((
      SELECT NOT arg_max(o.training, o.seq) FROM module_modes o
      WHERE o.rank = m.rank AND o.module_id = d.parent_id AND o.step = m.step AND NOT o.grad AND o.seq <= m.seq), false))
ORDER BY step, m.rank, m.seq
