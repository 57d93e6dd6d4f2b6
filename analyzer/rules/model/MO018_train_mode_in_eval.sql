/*
code = "MO018"
name = "train-mode-in-eval"
severity = "error"
phase = "eval"
signal = "training"
message = "In the evaluation before step {next} {place_} ({class_name}) {how_}: {consequence_}."
fix = "{remedy}"
[say.place_]
root = "the root module"
named = "{module}"
[say.how_]
in_train_mode = "runs in train mode"
random = "drops units at random although it is in eval mode"
random_as_others = "drops units at random although it is in eval mode, and so do {others} others"
[say.consequence_]
drops_units = "it drops units at random"
batch_statistics = "it normalises by the batch and updates its running statistics"
another_result = "its code calls a functional dropout whatever the mode, so the same input gives another result each time"
[say.remedy]
call_eval = "Call model.eval() before the evaluation and model.train() after it."
give_the_mode = "Give the call its mode: F.dropout(x, p, training=self.training), dropout_p=self.dropout if self.training else 0.0. model.eval() alone does not reach the argument of a function."
[params.stretch]
value = 5
unit = "steps"
doc = "Steps in a row, each with forwards without gradients: no evaluation, but a part of the training step that joined it for a while."
source = "convention: of this project, evaluations are rare"
[params.samples]
value = 3
unit = "forwards"
doc = "Forwards on one batch in an evaluation above which it draws samples on purpose, as Monte Carlo dropout does."
source = "convention: of this project, two forwards may be an odd script, more are samples on purpose (Gal and Ghahramani 2016, Monte Carlo dropout)"
[params.half]
value = 0.5
unit = "of the steps"
doc = "Share of the steps with an evaluation."
source = "arithmetic: a majority is more than a half"
[needs]
tables = ["module_modes", "steps"]
columns = ["module_modes.training"]
[doc]
what = "Dropout or batch norm runs with training=True in forwards without gradients, which come in groups between training steps. Or a functional dropout drew random numbers inside a module in eval mode."
why = "Results are noisy, and batch norm learns from the evaluation data."
not_this = "A forward without gradients at every step of the run or of a stage (a teacher, a generator, sampling). One look at the batch that was just trained on, a block under no_grad inside a training forward. Several optimizers, dropout of probability zero. One batch that an evaluation passes through many times (Monte Carlo dropout). A pass in train mode before the evaluation in eval mode, which sets the statistics of batch norm. A momentum encoder, which never runs with gradients and is in eval mode in evaluations."
source = "Flags; the operators of one evaluation as torch's profiler lists them."
*/
-- shared
WITH bouts AS (
    SELECT rank, count(*) FILTER (eval_forwards > 0) AS bouts, count(*) AS total, max(eval_forwards) AS most
    FROM (
        SELECT rank, step, sum(coalesce(eval_forwards, 0)) AS eval_forwards FROM steps GROUP BY rank, step)
            GROUP BY rank
)
-- detector: in_train_mode
WITH stretches AS (
    SELECT rank, step, count(*) OVER (PARTITION BY rank, island) AS long FROM (
        SELECT rank, step,
            row_number() OVER (PARTITION BY rank
                ORDER BY step) - row_number() OVER (PARTITION BY rank, sum(coalesce(eval_forwards, 0)) > 0
                ORDER BY step) AS island,
            sum(coalesce(eval_forwards, 0)) > 0 AS looked FROM steps GROUP BY rank, step) WHERE looked
), one AS (
    SELECT rank FROM param_groups GROUP BY rank HAVING count(DISTINCT optimizer_id) = 1
)
SELECT m.rank, greatest(m.step, 0) AS step, m.seq, d.module, d.class_name, m.step AS next, true AS value,
    'in_train_mode' AS how_, 'call_eval' AS remedy,
    CASE WHEN d.class_name LIKE '%Dropout%' THEN 'drops_units' ELSE 'batch_statistics' END AS consequence_
FROM module_modes m
JOIN modules d ON d.rank = m.rank AND d.module_id = m.module_id
JOIN bouts b ON b.rank = m.rank
JOIN one ON one.rank = m.rank
WHERE NOT m.grad
  AND m.training
  AND regexp_matches(d.class_name, '^(Dropout|AlphaDropout|BatchNorm|SyncBatchNorm)')
  AND coalesce(json_extract(d.settings, '$.p')::DOUBLE, 1) > 0 AND b.bouts <= $half * b.total
  AND (m.rank, m.step) NOT IN (SELECT (rank, step) FROM looks_back)
  AND (m.rank, m.step) NOT IN (SELECT (rank, step) FROM stretches WHERE long >= $stretch)
  -- a block that runs without gradients inside a forward with them is part of the training
  AND NOT EXISTS (
      SELECT 1 FROM module_tree t JOIN module_modes o ON o.rank = t.rank AND o.module_id = t.ancestor_id
      WHERE t.rank = m.rank AND t.module_id = m.module_id AND t.ancestor_id <> t.module_id
      GROUP BY t.ancestor_id HAVING bool_and(o.grad))
  -- so is one that never runs with them, and that the script does put into eval mode in its evaluations: a
  -- momentum encoder
  AND NOT EXISTS (
      SELECT 1 FROM module_modes o WHERE o.rank = m.rank AND o.module_id = m.module_id
      HAVING NOT bool_or(o.grad) AND NOT bool_and(o.training))
  -- batch norm that runs in eval mode after it, before the same step: a pass that sets its statistics for the
  -- evaluation
  AND NOT (d.class_name LIKE '%BatchNorm%' AND EXISTS (
      SELECT 1 FROM module_modes o
      WHERE o.rank = m.rank AND o.module_id = m.module_id
        AND o.step = m.step AND o.seq > m.seq AND NOT o.grad AND NOT o.training))
  -- dropout alone in training mode inside a module that is in eval mode was switched on by hand, to sample:
  -- what counts is the
  -- mode in which that module itself ran last before, it may have been in another one earlier in the same
  -- evaluation
  AND NOT (d.class_name LIKE '%Dropout%' AND coalesce((
      SELECT NOT arg_max(o.training, o.seq) FROM module_modes o
      WHERE o.rank = m.rank
        AND o.module_id = d.parent_id
        AND o.step = m.step
        AND NOT o.grad
        AND o.seq <= m.seq), false))
-- detector: functional_dropout
WITH functional AS (
    SELECT e.rank, e.step, e.module_id, json_extract_string(e.detail, '$.operator') AS operator,
        json_extract(e.detail, '$.modules')::INT - 1 AS others
    FROM events e WHERE e.event = 'random-evaluation'
      AND NOT EXISTS (SELECT 1
          FROM batches b
          WHERE b.rank = e.rank
            AND b.step = e.step
            AND b.phase = 'eval'
            AND b.role = 'input'
            AND b.fingerprint IS NOT NULL
          GROUP BY b.fingerprint, b.tensor_id
          HAVING count(*) > $samples)
)
SELECT u.rank, u.step, NULL::INTEGER AS seq, d.module, d.class_name, u.step AS next, true AS value, u.others,
    CASE WHEN u.others > 0 THEN 'random_as_others' ELSE 'random' END AS how_,
    'another_result' AS consequence_, 'give_the_mode' AS remedy
FROM functional u JOIN modules d ON d.rank = u.rank AND d.module_id = u.module_id
WHERE u.rank NOT IN (SELECT rank FROM in_train_mode)
-- together
SELECT *, CASE module WHEN '' THEN 'root' ELSE 'named' END AS place_
FROM found
ORDER BY step, rank, seq
