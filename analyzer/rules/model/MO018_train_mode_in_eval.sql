/*
code = "MO018"
name = "train-mode-in-eval"
severity = "error"
phase = "eval"
signal = "training"
message = "{what_}: {consequence_}."
fix = "{remedy}"
seeks = [
    [
        "module_modes: NOT grad AND training",
        "events: event = 'random-evaluation'",
    ],
]
[say.place_]
root = "the root module"
named = "{module}"
[say.how_]
in_train_mode = "runs in train mode"
random = "drops units at random although it is in eval mode"
random_as_others = "drops units at random although it is in eval mode, and so do {others} others"
[say.what_]
evaluation = "In the evaluation before step {next} {place_} ({class_name}) {how_}"
frozen_network = "From step {step} on {module} ({class_name}) of the model {model}, which gives outputs in each step and is not trained, runs in train mode"
[say.consequence_]
drops_units = "it drops units at random"
batch_statistics = "it normalises by the batch and updates its running statistics"
another_result = "its code calls a functional dropout whatever the mode, so the same input gives another result each time"
made_inside = "its forward makes a {made} for itself, which is always in train mode, so the same input gives another result each time"
[say.remedy]
make_once = "Make the {made} in __init__: eval() reaches only the modules that the model holds."
frozen_network = "Call eval() on this model once, before the training: teacher.eval()."
call_eval = "Call model.eval() before the evaluation and model.train() after it."
give_the_mode = "Give the call its mode: F.dropout(x, p, training=self.training), dropout_p=self.dropout if self.training else 0.0. model.eval() alone does not reach the argument of a function."
[params.always]
value = 0.9
unit = "of the steps"
doc = "Share of the steps, from its first one on, in which a model that is not trained is called without gradients."
source = "convention: of this project, nine of ten: a teacher answers in each step, a step or two may go without"
[params.long]
value = 20
unit = "steps"
doc = "Steps in which it is called, from which it is a part of the training."
source = "convention: of this project, a few steps may be a trial"
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
what = "Dropout or batch norm runs with training=True in forwards without gradients, which come in groups between training steps. So does a module whose forward calls a functional dropout. Or a functional dropout, or one that a forward makes for itself, drew random numbers inside a module in eval mode. Or a network that is not trained, such as a teacher, answers in each step in train mode."
why = "Results are noisy, and batch norm learns from the evaluation data."
not_this = "A forward without gradients at every step of the run or of a stage by what is trained itself (a generator, sampling), or by an average of it. One look at the batch that was just trained on, a block under no_grad inside a training forward. Several optimizers, dropout of probability zero. One batch that an evaluation passes through many times (Monte Carlo dropout). A pass in train mode before the evaluation in eval mode, which sets the statistics of batch norm. A momentum encoder, which never runs with gradients and is in eval mode in evaluations."
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
), dropping AS (
    -- by a function that has the module's flag
    SELECT DISTINCT rank, module_id FROM events
    WHERE event = 'random-evaluation' AND json_extract(detail, '$.training')::BOOL
)
SELECT m.rank, greatest(m.step, 0) AS step, m.seq, d.module, d.class_name, m.step AS next, true AS value,
    'evaluation' AS what_, 'in_train_mode' AS how_, 'call_eval' AS remedy,
    CASE WHEN d.class_name LIKE '%BatchNorm%' THEN 'batch_statistics' ELSE 'drops_units' END AS consequence_
FROM module_modes m
JOIN modules d ON d.rank = m.rank AND d.module_id = m.module_id
JOIN bouts b ON b.rank = m.rank
JOIN one ON one.rank = m.rank
WHERE NOT m.grad
  AND m.training
  AND (regexp_matches(d.class_name, '^(Dropout|AlphaDropout|BatchNorm|SyncBatchNorm)')
      OR (m.rank, m.module_id) IN (SELECT (rank, module_id) FROM dropping))
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
        json_extract_string(e.detail, '$.made') AS made,
        json_extract(e.detail, '$.modules')::INT - 1 AS others
    FROM events e WHERE e.event = 'random-evaluation'
      AND NOT coalesce(json_extract(e.detail, '$.training')::BOOL, false)
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
    'evaluation' AS what_, if(u.made IS NULL, 'another_result', 'made_inside') AS consequence_, u.made,
    if(u.made IS NULL, 'give_the_mode', 'make_once') AS remedy
FROM functional u JOIN modules d ON d.rank = u.rank AND d.module_id = u.module_id
WHERE u.rank NOT IN (SELECT rank FROM in_train_mode)
-- detector: frozen_network
WITH called AS (
    SELECT m.rank, d.model, min(m.step) AS step
    FROM module_modes m JOIN modules d ON d.rank = m.rank AND d.module_id = m.module_id
    WHERE d.depth = 0 AND NOT m.grad
    GROUP BY ALL
), others AS (
    -- trained or given new weights since then, or also called with gradients or in eval mode
    SELECT c.rank, c.model
    FROM called c JOIN modules d ON d.rank = c.rank AND d.model = c.model
    WHERE EXISTS (FROM module_modes m
            WHERE m.rank = d.rank AND m.module_id = d.module_id AND m.step >= c.step
              AND (m.grad OR NOT m.training))
      OR EXISTS (FROM copies k WHERE k.rank = d.rank AND k.module_id = d.module_id AND k.moved > 0)
      OR EXISTS (FROM parameters p JOIN tensor_stats u ON u.rank = p.rank AND u.tensor_id = p.update_id
            WHERE p.rank = d.rank AND p.module_id = d.module_id AND u.step >= c.step AND u.sum_sq > 0)
), lasting AS (
    SELECT c.rank, c.model, c.step, count(*) FILTER (s.eval_forwards > 0) AS calls, count(*) AS steps_
    FROM called c JOIN steps s ON s.rank = c.rank AND s.step >= c.step
    WHERE (c.rank, c.model) NOT IN (SELECT (rank, model) FROM others)
    GROUP BY ALL
)
SELECT l.rank, l.step, m.seq, d.model, d.module, d.class_name, true AS value,
    'frozen_network' AS what_, 'frozen_network' AS remedy,
    CASE WHEN d.class_name LIKE '%BatchNorm%' THEN 'batch_statistics' ELSE 'drops_units' END AS consequence_
FROM lasting l
JOIN modules d ON d.rank = l.rank AND d.model = l.model
JOIN module_modes m ON m.rank = d.rank AND m.module_id = d.module_id AND NOT m.grad AND m.training
WHERE l.calls >= $long AND l.calls >= $always * l.steps_
  AND regexp_matches(d.class_name, '^(Dropout|AlphaDropout|BatchNorm|SyncBatchNorm)')
  AND coalesce(json_extract(d.settings, '$.p')::DOUBLE, 1) > 0
  AND EXISTS (FROM parameters p JOIN modules o ON o.rank = p.rank AND o.module_id = p.module_id
      WHERE p.rank = d.rank AND p.optimizer_id IS NOT NULL AND o.model <> d.model)
QUALIFY row_number() OVER (PARTITION BY l.rank, d.model ORDER BY d.call_order) = 1
-- together
SELECT *, CASE module WHEN '' THEN 'root' ELSE 'named' END AS place_
FROM found
ORDER BY step, rank, seq
