/*
code = "MO017"
name = "stuck-in-eval-mode"
severity = "error"
phase = "forward"
signal = "training"
message = "From step {step} on {who_} trains in eval mode{after_}. Dropout is off, and batch norm uses and keeps its old statistics."
fix = "Call model.train() before the training loop goes on (after each evaluation)."
seeks = [
    [
        "steps: NOT training AND microbatches >= 1",
        "module_modes: grad AND NOT training",
    ],
]
explains = ["overfit", "batchnorm-not-tracking", "shuffled-labels", "silent-data-corruption"]
[say.who_]
the_model = "the model"
a_part = "{part}, a part of what is trained,"
[say.after_]
stopped = " (it was in train mode until step {last_train})"
paused = " (it was in train mode until step {last_train}, and is again from step {again} on)"
evaluated_alone = " (it was evaluated by itself, and in train mode until step {last_train})"
[params.least]
value = 3
unit = "steps"
doc = "Steps in a row."
source = "convention: of this project, fewer may be a look at the model"
[params.drawn]
value = 5
unit = "steps"
doc = "Steps in train mode by which is told that they draw random numbers."
source = "convention: of this project, of five random draws none is equal by chance"
[params.drew]
value = 0.9
unit = "of the steps"
doc = "Share of the steps in train mode that drew random numbers."
source = "convention: of this project, one of ten may not be seen"
[params.drew_less]
value = 0.5
unit = "of the steps"
doc = "The same in eval mode, at most."
source = "arithmetic: half"
[needs]
tables = ["steps", "modules"]
columns = ["steps.training"]
steps = 4
[doc]
what = "After steps with training=True, training forwards run with training=False to the end of the run. Or they run so from an evaluation on for some steps. Or they do so in all steps of a model with dropout, batch norm, or random numbers in train mode only. That is a warning, unless its batch norms have never seen a batch. The same holds for a model of the same build that takes its place, as after a resume. It holds for a part of the model that was evaluated by itself, if it trains on in eval mode."
why = "Regularisation and running statistics stop, without an error."
not_this = "Models without such layers, evaluation. Steps in eval mode that no evaluation came before, if train mode follows. Frozen parts of a model in train mode. Parts that were put into eval mode without having been evaluated by themselves, or again after each train()."
source = "Flags; no threshold but persistence."
*/
-- shared
WITH modes AS (
    SELECT rank, step, bool_or(training) AS training, row_number() OVER (PARTITION BY rank ORDER BY step) AS n
    FROM steps
    WHERE training IS NOT NULL AND microbatches >= 1 GROUP BY rank, step
), ends AS (
    SELECT rank, max(step) FILTER (training) AS last_train, max(step) AS last,
        count(*) FILTER (NOT training) AS off_
    FROM modes
    GROUP BY rank
), drawing AS (
    -- a pass over a loader begins with a draw of its own
    SELECT m.rank, m.training,
        CASE WHEN NOT EXISTS (FROM batches b
                WHERE b.rank = m.rank AND b.step = m.step AND b.loader_id IS NOT NULL AND b.batch_index = 0)
            THEN s.rng <> lag(s.rng) OVER (PARTITION BY m.rank ORDER BY m.step) END AS drew
    FROM modes m
    JOIN (SELECT rank, step, max(rng) AS rng FROM steps GROUP BY rank, step) s ON s.rank = m.rank
        AND s.step = m.step
), sensitive AS (
    SELECT rank
    FROM modules
    WHERE regexp_matches(class_name,
        '^(Dropout|AlphaDropout|FeatureAlphaDropout|BatchNorm|SyncBatchNorm|LazyBatchNorm)')
      AND call_order IS NOT NULL
    UNION
    -- or dropout by function: every step in train mode draws random numbers, and few in eval mode do
    SELECT rank FROM drawing GROUP BY rank
    HAVING count(drew) FILTER (training) >= $drawn
        AND avg(drew::INTEGER) FILTER (training) > $drew
        AND avg(drew::INTEGER) FILTER (NOT training) < $drew_less
)
-- detector: to_the_end
WITH roots AS (
    SELECT o.rank, o.module_id, any_value(m.class_name) AS class_name,
        arg_max(o.training, (o.step, o.seq)) AS training, bool_or(o.training) AS ever, min(o.step) AS first_,
        (SELECT count(*) FROM module_tree c WHERE c.rank = o.rank AND c.ancestor_id = o.module_id) AS modules_
    FROM module_modes o
    JOIN modules m ON m.rank = o.rank AND m.module_id = o.module_id AND m.parent_id IS NULL
    WHERE o.grad
    GROUP BY o.rank, o.module_id
), replaced AS (
    -- as after a resume: a model of the same build has come, and it is trained in eval mode only
    SELECT DISTINCT a.rank, a.module_id FROM roots a JOIN ends e ON e.rank = a.rank
    JOIN roots b ON b.rank = a.rank
        AND b.module_id <> a.module_id
        AND b.class_name = a.class_name
        AND b.modules_ = a.modules_
        AND NOT b.ever
        AND b.first_ > e.last_train
    WHERE a.training
), kept AS (
    -- where a part with such layers is in train mode, the rest was put into eval mode by intention, as what
    -- is frozen is
    SELECT DISTINCT rank FROM (
        SELECT o.rank, arg_max(o.training, (o.step, o.seq)) AS training
        FROM module_modes o
        JOIN modules m ON m.rank = o.rank AND m.module_id = o.module_id
        WHERE o.grad
          AND m.call_order IS NOT NULL
          AND regexp_matches(m.class_name,
              '^(Dropout|AlphaDropout|FeatureAlphaDropout|BatchNorm|SyncBatchNorm|LazyBatchNorm)')
            AND NOT EXISTS (FROM replaced p
                JOIN module_tree t ON t.rank = p.rank AND t.ancestor_id = p.module_id
                WHERE t.rank = m.rank AND t.module_id = m.module_id)
                GROUP BY o.rank, o.module_id)
    WHERE training
), untouched AS (
    -- batch norms that normalise by the mean 0 and variance 1 that they were made with
    SELECT t.rank FROM tensor_stats s JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id
    WHERE t.kind = 'buffer' AND t.tensor_name LIKE '%num_batches_tracked' AND t.module_id IN (
        SELECT m.module_id
        FROM modules m
        WHERE m.rank = t.rank AND m.class_name LIKE '%BatchNorm%' AND m.call_order IS NOT NULL)
    GROUP BY t.rank HAVING max(s.max) = 0
)
SELECT e.rank,
    (SELECT min(step) FROM modes m WHERE m.rank = e.rank AND m.step > coalesce(e.last_train, -1)) AS step,
    '' AS module, 'the_model' AS who_, e.off_ AS value, e.last_train,
    CASE WHEN e.last_train IS NOT NULL THEN 'stopped' END AS after_,
    CASE WHEN e.last_train IS NULL
        AND e.rank NOT IN (SELECT rank FROM untouched) THEN 'warning' ELSE 'error' END AS severity
FROM ends e JOIN sensitive s ON s.rank = e.rank
WHERE e.rank NOT IN (FROM kept)
  AND NOT (SELECT training FROM modes m WHERE m.rank = e.rank AND m.step = e.last)
  AND (SELECT count(*) FROM modes m WHERE m.rank = e.rank AND m.step > coalesce(e.last_train, -1)) >= $least
-- detector: for_a_stretch
WITH stretches AS (
    -- steps in a row in one mode
    SELECT rank, training, min(step) AS step, max(step) AS last, count(*) AS steps,
        row_number() OVER (PARTITION BY rank ORDER BY min(step)) AS n,
        count(*) OVER (PARTITION BY rank) AS stretches,
            lead(min(step)) OVER (PARTITION BY rank ORDER BY min(step)) AS again,
            lag(max(step)) OVER (PARTITION BY rank ORDER BY min(step)) AS before_step
    FROM (SELECT *, n - row_number() OVER (PARTITION BY rank, training ORDER BY step) AS island FROM modes)
    GROUP BY rank, training, island
), left_over AS (
    -- what an evaluation that does not always come to its end, or comes in the middle of an epoch, leaves
    -- behind until the next train()
    SELECT s.rank, s.step, s.again, s.before_step, s.steps FROM stretches s
    WHERE NOT s.training AND s.n > 1 AND s.n < s.stretches AND s.steps >= $least
      AND (SELECT max(e.eval_forwards)
          FROM steps e
          WHERE e.rank = s.rank AND e.step BETWEEN s.before_step AND s.step)
          > (SELECT median(e.eval_forwards) FROM steps e WHERE e.rank = s.rank)
    QUALIFY row_number() OVER (PARTITION BY s.rank ORDER BY s.step) = 1
)
SELECT l.rank, l.step, '' AS module, 'the_model' AS who_, l.steps AS value, l.before_step AS last_train,
    l.again, 'paused' AS after_, 'error' AS severity
FROM left_over l JOIN sensitive s ON s.rank = l.rank JOIN ends e ON e.rank = l.rank
WHERE (SELECT training FROM modes m WHERE m.rank = e.rank AND m.step = e.last)
-- detector: part_of_the_model
WITH switched AS (
    -- modules that trained in train mode and, from a step just after an evaluation to the end, in eval mode
    SELECT w.rank, w.module_id, w.step, w.before_step FROM (
        SELECT rank, module_id, step, training, lag(training) OVER series AS before,
            lead(step) OVER series AS next, greatest(step - 1, 0) AS before_step
        FROM module_modes WHERE grad WINDOW series AS (PARTITION BY rank, module_id ORDER BY step, seq)) w
    WHERE NOT w.training AND w.before AND w.next IS NULL
      AND EXISTS (FROM steps s
          WHERE s.rank = w.rank AND s.step BETWEEN w.before_step AND w.step AND s.eval_forwards > 0)
), parts AS (
    SELECT s.* FROM switched s JOIN modules d ON d.rank = s.rank AND d.module_id = s.module_id
    WHERE NOT EXISTS (FROM switched p WHERE p.rank = s.rank AND p.module_id = d.parent_id)
      -- evaluated by itself: no module around it ran without gradients in the same step, as in an evaluation
      -- of the whole
      AND EXISTS (FROM module_modes e
          WHERE e.rank = s.rank
            AND e.module_id = s.module_id
            AND NOT e.grad
            AND NOT e.training
            AND e.step <= s.step
            AND NOT EXISTS (
          FROM module_tree t JOIN module_modes o ON o.rank = t.rank AND o.module_id = t.ancestor_id
          WHERE t.rank = s.rank
            AND t.module_id = s.module_id
            AND t.ancestor_id <> s.module_id
            AND NOT o.grad
            AND o.step = e.step))
      AND EXISTS (FROM module_tree t
          JOIN modules l ON l.rank = t.rank AND l.module_id = t.module_id
          WHERE t.rank = s.rank AND t.ancestor_id = s.module_id AND l.call_order IS NOT NULL
          AND regexp_matches(l.class_name,
              '^(Dropout|AlphaDropout|FeatureAlphaDropout|BatchNorm|SyncBatchNorm|LazyBatchNorm)')
            AND coalesce(json_extract(l.settings, '$.p')::DOUBLE, 1) > 0)
      -- where all of a model around it went to an evaluation later and trains in train mode since, train()
      -- reached this part too: the script puts it into eval mode again
      AND NOT EXISTS (FROM module_tree t
          JOIN module_modes o ON o.rank = t.rank AND o.module_id = t.ancestor_id
          JOIN module_modes i ON i.rank = o.rank AND i.module_id = s.module_id AND i.step = o.step
          WHERE t.rank = s.rank
            AND t.module_id = s.module_id
            AND t.ancestor_id <> s.module_id
            AND o.step > s.step
            AND NOT (o.grad OR o.training OR i.grad OR i.training)
            AND EXISTS (FROM modes q WHERE q.rank = s.rank AND q.training AND q.step > o.step))
      -- and it goes on learning: what is frozen may well be put into eval mode
      AND EXISTS (FROM module_tree t
          JOIN tensors p ON p.rank = t.rank AND p.module_id = t.module_id
          JOIN param_steps g ON g.rank = p.rank AND g.tensor_id = p.tensor_id
          WHERE t.rank = s.rank
            AND t.ancestor_id = s.module_id
            AND g.step > s.step
            AND NOT g.frozen
            AND g.sum_sq > 0)
)
SELECT p.rank, p.step, d.module,
    coalesce(nullif(d.module, ''), d.model) AS part, 'a_part' AS who_,
    (SELECT count(*) FROM modes m WHERE m.rank = p.rank AND m.step >= p.step) AS value,
    p.before_step AS last_train, 'evaluated_alone' AS after_, 'error' AS severity
FROM parts p JOIN modules d ON d.rank = p.rank AND d.module_id = p.module_id JOIN ends e ON e.rank = p.rank
WHERE (SELECT training FROM modes m WHERE m.rank = e.rank AND m.step = e.last)
  AND (SELECT count(*) FROM modes m WHERE m.rank = p.rank AND m.step >= p.step) >= $least
-- together
ORDER BY step, rank
