/*
code = "OP020"
name = "ema-not-updated"
severity = "error"
phase = "optimizer"
signal = "moved"
message = "{name} ({kind_}) holds a copy of the weights of {of_model} that {how_}, while {trained_} moved in {model_steps} steps. At the end the two are {distance} of the weights' size apart."
fix = "Call the update of {name} after every optimizer step (update_parameters, ema.update, lerp_). Check that it gets the model that is trained. Update the buffers too (use_buffers=True, copy_ of each), or compute them again with update_bn before an evaluation."
explains = ["stale-metric", "overfit"]
[say.kind_]
averaged = "AveragedModel"
module = "a second model"
part = "a part of the model"
holder = "an object with tensors"
[say.how_]
orphaned = "follows it still, although it stands still and is not asked from step {step} on"
stopped = "was updated {updates} times and not once from step {step} on"
halted = "was overwritten every {every} steps, {times} times, and not once from step {step} on"
in_vain = "was written to in {written} steps without any change"
never_moved = "has not moved once in {total} steps"
without_its_statistics = "follows it without its running means and variances (unchanged in {looks} looks, {statistics_distance:.2g} of their size away from the model's at the end) and is evaluated with them"
[say.trained_]
the_model = "the model"
another_of_its_kind = "{other}, a model of the same kind,"
[params.least]
value = 8
unit = "steps"
doc = "Steps without an update, and at least four times its usual distance."
source = "own history"
[params.never]
value = 20
unit = "steps"
doc = "Steps of training in which a copy that is named after averaging was not updated once."
source = "convention: of this project, copies are updated at each step or at every tenth"
[params.written]
value = 5
unit = "steps"
doc = "Steps in which a copy was written to without any change."
source = "convention: of this project, fewer may be a model that stands still"
[params.missed]
value = 6
unit = "intervals"
doc = "Intervals without a copy, in a copy that was overwritten at equal intervals before and is asked on."
source = "own history"
[params.patience]
value = 300
unit = "steps"
doc = "Steps in which a second model named a target was neither overwritten nor averaged once. From it on there is a warning."
source = "convention: of this project, more than the usual distances of target networks in short runs. In long ones they are some thousands"
[params.apart]
value = 0.01
doc = "Distance from the model, as a share of its weights. From it on an update of a hundred-thousandth of it still shows in float32."
source = "arithmetic: a hundred-thousandth of a hundredth is 1e-7, the resolution of float32"
[params.rounding]
value = 1e-7
doc = "Distance below which two sets of weights are the same."
source = "arithmetic"
[params.equal]
value = 1.01
unit = "times"
doc = "How much farther than the model's last step a copy may be that was made before it."
source = "arithmetic"
[params.updates]
value = 5
unit = "updates"
doc = "Updates that make a habit."
source = "own history"
[params.mostly]
value = 0.8
unit = "of them"
doc = "Share of steps, or of updates, that counts as nearly all."
source = "own history"
[params.often]
value = 10
unit = "steps"
doc = "Usual gap between updates up to which one that stops is missed."
source = "own history"
[params.waits]
value = 4
unit = "times"
doc = "How many of its usual gaps an average must have stood still."
source = "own history"
[params.drift]
value = 1e-5
doc = "Distance, times the share of it that an update covers, above which an average would have moved visibly."
source = "arithmetic"
[params.times]
value = 4
unit = "times"
doc = "Copies at even gaps that make a rhythm."
source = "own history"
[params.beginning]
value = 8
unit = "steps"
doc = "First steps of a run, before anything has been learnt."
source = "own history"
[params.half]
value = 0.5
unit = "of its steps"
doc = "Share of its steps in which the one before followed."
source = "own history"
[params.usual]
value = 0.9
doc = "Quantile of the gaps between updates that is the usual one."
source = "own history"
[params.looks]
value = 4
unit = "looks"
doc = "Looks at running statistics that never moved, from which it is a habit."
source = "convention: of this project, fewer do not show a habit"
[params.stale]
value = 0.1
doc = "Distance of the running statistics, as a share of the model's, from which they are other ones."
source = "convention: of this project, a tenth: statistics of one data set differ by less"
[needs]
tables = ["copies", "steps"]
[doc]
what = "A copy that followed the model softly stops for good while the model goes on. Softly means that it moved often and never became equal. Or a copy has never moved at all. It is named after averaging, or, within the model, teacher or target encoder. Or it is torch's AveragedModel and was used. Or a teacher was copied from the model before anything was trained, or loaded, and is used to the end. Or any copy is written to step after step without a single number changing. Or a copy was overwritten at equal intervals, is overwritten no more and is still used. Or it follows a model that no longer changes and is no longer used. Another model of its kind is trained. Or its weights follow while its batch norm's running statistics stay as they were copied, and it is evaluated. Or one of several target networks never followed, and the others did. As a warning: a second model is named a target and never followed."
why = "Evaluations and the saved model use weights from long ago, and nothing in loss or gradients shows it."
not_this = "Target networks and best-model copies that are overwritten now and then. Teachers and reference models that are no part of the trained model and were made of trained weights. They never follow. Models that are filled from an average for an evaluation. Stochastic weight averaging that begins late and is not used before. Averages whose statistics are set again before they are used or that run in train mode. Averages that are loaded into the model and done with. Weights so near their average that an update is rounded away."
source = "Equality of a sample of the weights; the copy's own rhythm."
*/
-- shared
WITH steps_ AS (
    -- a step of several optimizers looks several times
    SELECT rank, copy_id, step, any_value(name) AS name, any_value(kind) AS kind,
        any_value(of_model) AS of_model, max(module_id) AS module_id, sum(writes) AS writes,
        sum(moved) AS moved, sum(model_moved) AS model_moved, max(distance) AS distance,
            min(distance) AS nearest, max(statistics_moved) AS statistics_moved,
            max(model_statistics_moved) AS model_statistics_moved,
            max(statistics_distance) AS statistics_distance
    FROM copies GROUP BY rank, copy_id, step
), rows_ AS (
    SELECT *, lag(distance) OVER w AS distance_before, count(*) OVER (PARTITION BY rank, copy_id) AS total
    FROM steps_ WINDOW w AS (PARTITION BY rank, copy_id ORDER BY step)
), updates AS (
    SELECT *, step - lag(step) OVER (PARTITION BY rank, copy_id ORDER BY step) AS gap
    FROM rows_
    WHERE moved > 0
), rhythm AS (
    SELECT rank, copy_id, count(*) AS updates, max(step) AS last_update, quantile_disc(gap, $usual) AS usual,
        count(*) FILTER (nearest > greatest($rounding, $equal * model_moved)) AS soft,
        median(moved / nullif(distance_before, 0)) AS rate
    FROM updates GROUP BY rank, copy_id
), ends AS (
    SELECT r.rank, r.copy_id, any_value(r.name) AS name, any_value(r.kind) AS kind,
        any_value(r.of_model) AS of_model, max(r.module_id) AS module_id,
        min(r.step) AS first_step, max(r.step) AS last_step, arg_max(r.distance, r.step) AS distance,
            max(r.total) AS total,
        count(*) FILTER (r.model_moved > 0 AND r.step > coalesce(h.last_update, -1)) AS model_steps,
        count(*) FILTER (r.step > coalesce(h.last_update, -1)) AS still_steps,
        median(r.distance) FILTER (r.step > coalesce(h.last_update, -1)) AS still_distance,
        any_value(h.updates) AS updates, any_value(h.last_update) AS last_update, any_value(h.usual) AS usual,
            any_value(h.soft) AS soft, any_value(h.rate) AS rate,
        count(*) FILTER (r.statistics_moved IS NOT NULL AND r.model_statistics_moved > 0) AS looks,
        max(r.statistics_moved) AS statistics_moved,
        arg_max(r.statistics_distance, r.step) AS statistics_distance,
        max(r.step) FILTER (r.statistics_moved IS NOT NULL) AS last_look,
        count(*) FILTER (r.writes > 0) AS written, min(r.step) FILTER (r.writes > 0) AS first_write
    FROM rows_ r LEFT JOIN rhythm h ON h.rank = r.rank AND h.copy_id = r.copy_id GROUP BY r.rank, r.copy_id
), called_at AS (
    SELECT t.rank, t.module_id, max(s.step) AS step
    FROM tensors t
    JOIN tensor_stats s ON s.rank = t.rank AND s.tensor_id = t.tensor_id AND t.kind = 'activation'
    GROUP BY ALL
), called AS (
    SELECT rank, module_id FROM called_at
    -- in an evaluation only what the outermost module puts out is measured, but every module tells its mode
    UNION SELECT rank, module_id FROM module_modes
)
-- detector: orphaned
WITH roots AS (
    SELECT m.rank, m.module_id, m.model, m.class_name, sum(p.numel) AS numel
    FROM modules m
    JOIN module_tree u ON u.rank = m.rank AND u.ancestor_id = m.module_id
    JOIN parameters p ON p.rank = m.rank AND p.module_id = u.module_id
    WHERE m.module = '' GROUP BY ALL
), trained AS (
    SELECT u.rank, u.ancestor_id AS module_id, min(s.step) AS first_step, max(s.step) AS last_step
    FROM tensor_stats s
    JOIN parameters p ON p.rank = s.rank AND p.gradient_id = s.tensor_id AND NOT coalesce(s.missing, false)
    JOIN module_tree u ON u.rank = p.rank AND u.module_id = p.module_id AND u.ancestor = ''
    GROUP BY u.rank, u.ancestor_id
), stood AS (
    SELECT rank, copy_id, max(step) FILTER (model_moved > 0) AS last_step,
        count(*) FILTER (model_moved > 0) AS trained
    FROM steps_
    GROUP BY rank, copy_id
)
-- the model that it follows is trained no more and not even asked, and another one of the same kind took
-- its place, of which there is no copy
SELECT e.rank, t.last_step + 1 AS step, 'orphaned' AS how_, 'error' AS severity, other.model AS other,
    after_.last_step - t.last_step AS model_steps, e.* EXCLUDE (rank, model_steps)
FROM ends e
JOIN stood t ON t.rank = e.rank AND t.copy_id = e.copy_id
JOIN roots r ON r.rank = e.rank AND r.model = e.of_model
JOIN roots other ON other.rank = r.rank
    AND other.class_name = r.class_name
    AND other.numel = r.numel
    AND other.module_id <> r.module_id
JOIN trained after_ ON after_.rank = other.rank
    AND after_.module_id = other.module_id
    AND after_.first_step BETWEEN t.last_step - 1 AND t.last_step + $least
WHERE updates >= $updates
  AND t.trained >= $least
  AND after_.last_step - t.last_step >= $least
  AND e.last_step >= after_.last_step - 1
  AND NOT EXISTS (SELECT 1
      FROM called_at c
      WHERE c.rank = r.rank AND c.module_id = r.module_id AND c.step > t.last_step + 1)
  -- the model that was left is itself what the new one began as
  AND NOT EXISTS (SELECT 1
      FROM copies c
      WHERE c.rank = other.rank AND c.of_model = other.model AND c.module_id IS DISTINCT FROM r.module_id)
-- detector: stopped
WITH taken AS (
    -- what an average has gathered was loaded into the model as it ended: it has served
    SELECT e.rank, e.copy_id
    FROM ends e
    JOIN checkpoints c ON c.rank = e.rank
        AND c.action = 'weights'
        AND c.step BETWEEN e.last_update - 1 AND e.last_update + e.usual
)
SELECT e.rank, e.last_update + e.usual - 1 AS step, 'stopped' AS how_, 'error' AS severity,
    e.* EXCLUDE (rank)
FROM ends e
WHERE (e.rank, e.copy_id) NOT IN (SELECT (rank, copy_id) FROM taken)
  AND updates >= $updates
  AND soft >= $mostly * updates
  AND usual <= $often
  AND still_steps >= greatest($least, $waits * usual)
  AND model_steps >= $mostly * still_steps AND rate * still_distance > $drift
-- detector: halted
WITH overwritten AS (
    -- equal to the model as it was before the last update: a copy that is made after a step is seen beside
    -- the weights of the step after
    SELECT rank, copy_id, step, step - lag(step) OVER (PARTITION BY rank, copy_id ORDER BY step) AS gap
    FROM rows_ WHERE moved > 0 AND nearest <= greatest($rounding, $equal * model_moved)
), even AS (
    SELECT rank, copy_id, count(*) AS times, max(gap) AS every, max(step) AS last_copy
    FROM overwritten
    GROUP BY rank, copy_id
    HAVING count(*) >= $times AND max(gap) = min(gap)
)
SELECT e.rank, v.last_copy + v.every - 1 AS step, 'halted' AS how_, 'error' AS severity, v.every, v.times,
    e.* EXCLUDE (rank)
FROM ends e JOIN even v ON v.rank = e.rank AND v.copy_id = e.copy_id
-- nothing else moves it: what is overwritten at first and averaged from then on follows
WHERE e.last_update = v.last_copy
  AND e.last_step - v.last_copy >= greatest($least, $missed * v.every)
  AND model_steps >= $mostly * still_steps
  AND EXISTS (SELECT 1
      FROM called_at c
      WHERE c.rank = e.rank AND c.module_id = e.module_id AND c.step >= v.last_copy + $missed * v.every)
-- detector: in_vain
-- it is written to again and again, and not one number changes: averaged with itself, or with a weight of
-- nothing
SELECT e.rank, e.first_write - 1 AS step, 'in_vain' AS how_, 'error' AS severity, e.* EXCLUDE (rank)
FROM ends e
WHERE updates IS NULL
  AND written >= $written
  AND total >= $never
  AND model_steps >= $mostly * total
  AND distance > $apart
-- detector: never
WITH successors AS (
    -- one by the same name followed until this one took its place, as after a resume
    SELECT DISTINCT e.rank, e.copy_id
    FROM ends e
    JOIN ends b ON b.rank = e.rank
        AND b.name = e.name
        AND b.copy_id < e.copy_id
        AND b.last_step < e.first_step
    WHERE b.updates >= $least AND b.updates >= $half * b.total
), named AS (
    SELECT rank, copy_id,
        regexp_matches(name,
            '(^|[^a-z])(ema|swa|ewma|polyak|shadow|averaged?|avg|momentum|mean_?teacher)([^a-z]|$)', 'i')
        OR regexp_matches(name,
            '(EMA|Ema|SWA|Swa|EWMA|Polyak|Shadow|Averag|MeanTeacher)[^.]*[.]') AS averaging,
        -- a copy by this name within the module that it was copied from is there to follow; the target
        -- network of a DQN, which is
        -- overwritten now and then, may wait for longer than the run lasts
        regexp_matches(name, '(^|[^a-z])(teacher|target_(encoder|backbone|projector))([^a-z]|$)',
            'i') AS teaching,
        (rank, copy_id) IN (SELECT (rank, copy_id) FROM successors) AS followed,
        -- what never follows and was copied before anybody had learnt anything has nothing to teach
        kind = 'module'
            AND teaching
            AND first_step <= $beginning
            AND NOT EXISTS (FROM checkpoints k
                WHERE k.rank = ends.rank AND k.action = 'weights' AND k.step <= $beginning)
            AND EXISTS (FROM called_at c
                WHERE c.rank = ends.rank
                  AND c.module_id = ends.module_id
                  AND c.step >= $mostly * ends.last_step) AS untrained,
        regexp_matches(name,
            '(^|[^a-z])(target|tgt)(s|_?net(work)?|_?model|_?q|_?critic|_?actor|_?policy)?[0-9]*([^a-z]|$)',
            'i')
            AND NOT regexp_matches(name, 'encoder|decoder|embed|lang', 'i') AS target,
        -- another target network of this training is written to again and again
        target AND EXISTS (FROM ends o
            WHERE o.rank = ends.rank AND o.copy_id <> ends.copy_id AND o.updates >= $never
              AND regexp_matches(o.name, '(^|[^a-z])(target|tgt)([^a-z]|$)', 'i')) AS forgotten
    FROM ends
)
SELECT e.rank, CASE WHEN e.first_step <= $beginning THEN 0 ELSE e.first_step - 1 END AS step,
    'never_moved' AS how_,
    CASE WHEN kind = 'averaged'
        AND c.module_id IS NULL
        OR kind IN ('module', 'part')
        AND NOT n.averaging
        AND NOT n.untrained
        AND NOT n.forgotten THEN 'warning' ELSE 'error' END AS severity,
        e.* EXCLUDE (rank)
FROM ends e
JOIN named n ON n.rank = e.rank AND n.copy_id = e.copy_id
LEFT JOIN called c ON c.rank = e.rank AND c.module_id = e.module_id
WHERE updates IS NULL
  AND total >= $never
  AND model_steps >= $mostly * total
  AND (e.rank, e.copy_id) NOT IN (SELECT (rank, copy_id) FROM in_vain)
  -- one that is filled in the middle of the run gets its weights from an average that is kept elsewhere
  AND (kind NOT IN ('module', 'part')
      OR c.module_id IS NOT NULL
      AND (e.first_step <= $beginning OR n.followed)
    AND (n.averaging
        OR kind = 'part'
        AND n.teaching
        OR kind = 'module'
        AND n.target
        AND (total >= $patience OR n.forgotten)
        OR n.untrained))
-- detector: without_its_statistics
WITH modes AS (
    -- one that also runs in train mode makes its own statistics there
    SELECT rank, module_id, min(step) FILTER (NOT training) AS evaluated, bool_or(training) AS trains
    FROM module_modes GROUP BY rank, module_id
)
SELECT e.rank, CASE WHEN e.first_step <= $beginning THEN 0 ELSE e.first_step - 1 END AS step,
    'without_its_statistics' AS how_, 'error' AS severity, e.total AS model_steps,
    e.* EXCLUDE (rank, model_steps)
FROM ends e
JOIN modes m ON m.rank = e.rank AND m.module_id = e.module_id AND NOT m.trains
WHERE updates >= $updates
  AND soft >= $mostly * updates
  AND e.looks >= $looks
  AND e.statistics_moved = 0
  AND e.statistics_distance > $stale
  -- they were looked at again after an evaluation: nobody set them again before it
  AND m.evaluated < e.last_look
-- together
SELECT rank, greatest(step, 0) AS step, name, of_model, how_, other,
    CASE WHEN other IS NULL THEN 'the_model' ELSE 'another_of_its_kind' END AS trained_,
    model_steps, distance, distance AS value, updates, severity, copy_id, every, times, written, total,
    looks, statistics_distance,
    CASE WHEN kind IN ('averaged', 'module', 'part') THEN kind ELSE 'holder' END AS kind_
FROM found
QUALIFY row_number() OVER (PARTITION BY rank, copy_id ORDER BY severity, step) = 1
ORDER BY severity, step, rank, copy_id
