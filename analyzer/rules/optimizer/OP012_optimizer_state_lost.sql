/*
code = "OP012"
name = "optimizer-state-lost"
severity = "error"
phase = "optimizer"
signal = "state_step"
message = "At step {step} {what_} of {optimizer} is {value} after {before} in the step before: its moments were lost, {how_}."
fix = "Keep one optimizer for the run, with add_param_group for what is unfrozen later. On resume call optimizer.load_state_dict before training goes on."
seeks = [
    [
        "param_groups: state_step <= 1 AND step > 0 OR state_step IS NULL AND optimizer_id <> 0",
        "events: event = 'resume'",
        "checkpoints: action = 'read' AND (optimizer_entries > 0 OR epoch IS NOT NULL)",
    ],
]
explains = ["loss-off-course", "exploding-gradients", "lr-too-high", "shuffled-labels"]
[say.what_]
step_counter = "the step counter"
norm_of_the_state = "the norm of the state {key}"
kept_states = "the number of weights with a state"
[say.how_]
in_the_same_optimizer = "in the same optimizer"
with_a_new_optimizer = "with a new optimizer"
with_a_new_optimizer_of_more = "with a new optimizer that holds more parameters"
state_put_into_another = "since the state was put into another optimizer, which never steps"
state_was_empty = "since the state that was put into it was empty"
state_read_and_not_used = "since the state that was read from a file was put into no optimizer"
own_checkpoint_without_it = "since only the weights of the run's own checkpoint were loaded"
own_checkpoint_has_none = "since the run's own checkpoint keeps the {epoch_name} and the weights, and not this state; the learning rate begins again at {lr:.3g} too"
[params.gone_on]
value = 0.3
doc = "Distance of a new model's weights from the last ones of the model before, over that from its first ones. Below it the new model continues from there."
source = "own history"
[params.starts]
value = 3
unit = "optimizers"
doc = "New optimizers that each begin at weights that were loaded at that step, from which this is the plan."
source = "convention: of this project, two may be a restart"
[params.restart]
value = 0.2
doc = "Learning rate over that of the step before, below which moments that start again are part of a restart."
source = "own history"
[params.rounds]
value = 3
unit = "optimizers"
doc = "New optimizers, each over more samples than the one before, from which these are rounds over data that grow."
source = "convention: of this project, two may be chance"
[params.more]
value = 1.03
unit = "times"
doc = "Samples of a round over those of the round before."
source = "convention: of this project, more than the scatter of the last batch"
[params.fraction]
value = 0.2
doc = "Norm of the state after the first step of a new optimizer over that before. Below it the state began with nothing. It is for optimizers without a counter."
source = "arithmetic: after one step a first moment holds 1 - beta1, a tenth of a gradient; twice that"
[params.fewer]
value = 0.9
unit = "of the samples"
doc = "Samples of a round that are new."
source = "convention: of this project, one of ten was there before"
[params.soon]
value = 3
unit = "steps"
doc = "Steps after a handover that belong to it."
source = "convention: of this project, as many as a script needs to set itself up"
[params.counted]
value = 3
unit = "steps"
doc = "Steps that an optimizer's state must have counted to be one."
source = "convention: of this project, after fewer there is little to lose"
[params.half_rate]
value = 0.5
unit = "times"
doc = "Learning rate over that of the other optimizer, at least."
source = "arithmetic: half and twice"
[params.back]
value = 20
unit = "steps"
doc = "How far back the loss before is looked for."
source = "convention: of this project, an evaluation may lie between"
[params.same_rate]
value = 0.001
unit = "relative"
doc = "Change of a learning rate that is none."
source = "convention: of this project, rounding of what is logged"
[needs]
tables = ["param_groups"]
steps = 3
[doc]
what = "The step counter in the optimizer's state falls back to one. Or a new optimizer of the same class, size and learning rate replaces another and starts at one. If it keeps no counter, its moments start at a fraction of those before. Or an optimizer that was given a saved state never steps. Another of its class steps instead and starts at one. Or the state that was put into it beside loaded weights was empty. Or a file that holds only such a state was read beside the weights and put into no optimizer. Or a new model was given the weights of a checkpoint that the run has written itself, and its new optimizer, at the first learning rate, nothing of the state in it. Or such a checkpoint keeps the epoch and no state at all. As advice: a data set of another length takes the place of the one before. Or a new optimizer holds all that the old one held, at the same rates, and more. Or, as advice too: the new optimizer is that of another model with weights from memory, without a checkpoint."
why = "Adam's moments start from zero: the first steps are as long as at the start of the run."
not_this = "Another model, unless the last weights of the one before were loaded into it. A second optimizer for other parameters. A resumed run whose state was loaded; its counter falls by as much as had been done since the checkpoint. Another optimizer for another stage or another model, as the next fold has. The inner loop of meta-learning, with weights loaded and an optimizer made for each task. Stages in which the modules get other hooks, as pruning gives them. Restarts whose learning rate begins far lower as well. Rounds over data that grow, as in active learning."
source = "Counting."
*/
-- shared
WITH counters AS (
    SELECT rank, step, optimizer_id, any_value(optimizer) AS optimizer, max(state_step) AS state_step,
        sum(numel) AS numel, max(lr) AS lr
    FROM param_groups GROUP BY rank, step, optimizer_id
), inner_ AS (
    -- weights set again at each of several starts: the inner loop of meta-learning, or folds of one model
    SELECT h.rank
    FROM handovers h
    LEFT JOIN (SELECT DISTINCT rank, step FROM checkpoints WHERE action = 'weights') c ON c.rank = h.rank
        AND c.step = h.step
    GROUP BY h.rank HAVING count(*) >= $starts AND count(c.step) = count(*)
), rounds AS (
    -- the samples of each stretch between new optimizers: which come for the first time
    SELECT rank, round_, count(*) AS samples, count(*) FILTER (first_round = round_) AS new_ FROM (
        SELECT DISTINCT rank, round_, sample, min(round_) OVER (PARTITION BY rank, sample) AS first_round
        FROM (
            SELECT b.rank,
                (SELECT count(*) FROM handovers h WHERE h.rank = b.rank AND h.step <= b.step) AS round_,
                unnest(b.sample_fingerprints) AS sample
            FROM batches b
            WHERE b.phase <> 'eval'
              AND b.role = 'input'
              AND b.sample_fingerprints IS NOT NULL
              AND b.rank IN (SELECT rank FROM handovers GROUP BY rank HAVING count(*) >= $rounds)))
    GROUP BY rank, round_
), grown AS (
    -- each round trains on what the rounds before had and on more: active learning, the aggregation of data
    SELECT rank
    FROM (SELECT *, lag(samples) OVER (PARTITION BY rank ORDER BY round_) AS before FROM rounds)
    WHERE before IS NOT NULL
    GROUP BY rank
    HAVING count(*) >= $rounds AND bool_and(samples > $more * before AND new_ < $fewer * samples AND new_ > 0)
    UNION ALL
    -- not all batches were seen: longer and longer stretches tell the same
    SELECT rank
    FROM (
        SELECT rank, step, lead(step) OVER (PARTITION BY rank ORDER BY step) - step AS length
        FROM (SELECT rank, step FROM handovers UNION SELECT DISTINCT rank, 0 FROM handovers)
        WHERE rank IN (SELECT rank FROM unwatched_steps)
        QUALIFY length IS NOT NULL)
    GROUP BY rank
    HAVING count(*) >= $rounds AND list(length ORDER BY step) = list_sort(list(DISTINCT length))
), staged AS (
    -- hooks come or go with a new optimizer and at no other time, as with masks of pruning and with
    -- observers: planned stages
    SELECT rank FROM (
        SELECT p.rank, p.step, count(h.step) AS near
        FROM probes p
        LEFT JOIN handovers h ON h.rank = p.rank AND p.step BETWEEN h.step AND h.step + $soon
        WHERE p.probe = 'hooks' AND p.step > 0 GROUP BY p.rank, p.step
    ) GROUP BY rank HAVING min(near) > 0
), ends AS (
    SELECT rank, optimizer_id, any_value(optimizer) AS optimizer, min(step) AS first, max(step) AS last,
        arg_min(state_step, step) AS first_count, arg_max(state_step, step) AS last_count,
        any_value(numel) AS numel, arg_min(lr, step, 2) AS first_lrs, arg_max(lr, step) AS last_lr
    FROM counters WHERE state_step IS NOT NULL GROUP BY rank, optimizer_id
), loaders AS (
    SELECT rank, loader_id, min(step) AS first, max(step) AS last, max(dataset_length) AS length
    FROM batches
    WHERE phase <> 'eval' AND loader_id IS NOT NULL AND dataset_length IS NOT NULL
    GROUP BY rank, loader_id
), other_sets AS (
    -- one data set takes the place of another
    SELECT DISTINCT n.rank, n.first AS step
    FROM loaders n
    JOIN loaders o ON o.rank = n.rank AND o.last < n.first AND o.length <> n.length
), own_weights AS (
    -- weights that this run has saved itself, read from the file and put into a model; those of the beginning
    -- start another fold
    SELECT r.rank, r.step
    FROM checkpoints r
    JOIN checkpoints s ON s.rank = r.rank AND s.action = 'saved' AND s.path = r.path
        AND s.time_ns < r.time_ns
    JOIN checkpoints w ON w.rank = r.rank AND w.step = r.step AND w.action = 'weights'
        AND w.time_ns >= r.time_ns
    WHERE r.action = 'read'
    GROUP BY r.rank, r.step HAVING min(s.step) >= $counted
)
-- detector: within_one_run
WITH within_ AS (
    SELECT rank, step, optimizer, state_step AS value,
        lag(state_step) OVER (PARTITION BY rank, optimizer_id ORDER BY step) AS before,
        'step_counter' AS what_, 'in_the_same_optimizer' AS how_, optimizer_id,
        lr, lag(lr) OVER (PARTITION BY rank, optimizer_id ORDER BY step) AS lr_before
    FROM counters WHERE state_step IS NOT NULL
)
SELECT rank, step, optimizer, value, before, what_, how_, optimizer_id, 'error' AS severity
FROM within_
WHERE value <= 1 AND before >= 2
  -- with a warm-up from far below begins a restart that was planned
  AND NOT coalesce(lr < $restart * lr_before, false)
-- detector: new_optimizer
WITH handed AS (
    -- what the parameters of the new model are after its first update, against those of the same names in the
    -- model before, when
    -- it was made and when it was last seen: a resume goes on from there, another fold or seed begins again
    SELECT h.rank, h.optimizer_id, sum(abs(b.sum - a.last_sum) + abs(b.sum_sq - a.last_sq)) AS from_last,
        sum(abs(b.sum - a.first_sum) + abs(b.sum_sq - a.first_sq)) AS from_first
    FROM handovers h
    JOIN tensors t ON t.rank = h.rank AND t.kind = 'parameter'
    JOIN tensor_stats b ON b.rank = t.rank AND b.tensor_id = t.tensor_id AND b.step = h.step
    JOIN (
        SELECT s.rank, s.tensor_id, n.tensor_name, n.shape, w.optimizer_id,
            arg_max(s.sum, s.step) AS last_sum, arg_max(s.sum_sq, s.step) AS last_sq,
            arg_min(s.sum, s.step) AS first_sum,
            arg_min(s.sum_sq, s.step) AS first_sq, max(s.step) AS last
        FROM handovers w
        JOIN tensor_stats s ON s.rank = w.rank AND s.step < w.step
        JOIN tensors n ON n.rank = s.rank AND n.tensor_id = s.tensor_id AND n.kind = 'parameter'
        WHERE w.fresh GROUP BY ALL
    ) a ON a.rank = h.rank
        AND a.optimizer_id = h.optimizer_id
        AND a.tensor_name = t.tensor_name
        AND a.shape = t.shape
        AND a.tensor_id <> t.tensor_id
    WHERE h.fresh
      AND EXISTS (FROM checkpoints c WHERE c.rank = h.rank AND c.action = 'weights' AND c.step = h.step)
    GROUP BY ALL
)
-- a schedule that was loaded beside a new optimizer takes hold with its next step, so the second rate counts
-- too
SELECT n.rank, n.first AS step, n.optimizer, n.first_count AS value, o.last_count AS before,
    'step_counter' AS what_, 'with_a_new_optimizer' AS how_, n.optimizer_id,
    -- where the data are others from that very step on, a new task may be meant to begin again
    -- nor is it a resume where another model got the weights from memory: nothing was read from a checkpoint
    CASE WHEN (n.rank, n.first) IN (SELECT (rank, step) FROM data_changes)
        OR (n.rank, n.first) IN (SELECT (rank, step) FROM other_sets)
        OR EXISTS (FROM handovers h WHERE h.rank = n.rank AND h.optimizer_id = n.optimizer_id AND h.fresh
            AND NOT EXISTS (FROM checkpoints c
                WHERE c.rank = h.rank AND c.step = h.step AND c.action = 'read'))
        THEN 'warning' ELSE 'error' END AS severity
FROM ends n
-- the last step that was watched before: its own last ones may have gone unwatched
JOIN ends o ON o.rank = n.rank AND o.optimizer_id < n.optimizer_id
    AND o.last = (SELECT max(c.step) FROM counters c WHERE c.rank = n.rank AND c.step < n.first)
WHERE n.first > 0
  AND n.first_count <= 1
  AND o.last_count >= $counted
  AND n.optimizer = o.optimizer
  AND n.numel = o.numel
  AND len(list_filter(n.first_lrs, lambda lr: lr BETWEEN $half_rate * o.last_lr AND 2 * o.last_lr)) > 0
  AND n.rank NOT IN (SELECT rank FROM inner_ UNION FROM staged UNION FROM grown)
  AND NOT EXISTS (FROM handovers h WHERE h.rank = n.rank AND h.optimizer_id = n.optimizer_id AND h.fresh
      AND (h.rank, h.step) NOT IN (SELECT (rank, step) FROM own_weights)
      AND NOT EXISTS (FROM handed g
          WHERE g.rank = h.rank
            AND g.optimizer_id = h.optimizer_id
            AND g.from_last < $gone_on * g.from_first))
-- detector: new_optimizer_state
WITH uncounted AS (
    SELECT rank, optimizer_id, any_value(optimizer) AS optimizer, min(step) AS first, max(step) AS last,
        any_value(numel) AS numel, arg_min(lr, step, 2) AS first_lrs, arg_max(lr, step) AS last_lr
    FROM counters GROUP BY rank, optimizer_id HAVING count(state_step) = 0 AND count(*) >= $counted
), followed AS (
    SELECT n.rank, n.optimizer_id, n.optimizer, n.first
    FROM uncounted n
    JOIN uncounted o ON o.rank = n.rank AND o.optimizer_id < n.optimizer_id AND o.last = n.first - 1
    JOIN handovers h ON h.rank = n.rank AND h.optimizer_id = n.optimizer_id AND NOT h.fresh
    WHERE n.optimizer = o.optimizer
      AND n.numel = o.numel
      AND len(list_filter(n.first_lrs, lambda lr: lr BETWEEN $half_rate * o.last_lr AND 2 * o.last_lr)) > 0
), held AS (
    SELECT f.rank, f.optimizer_id, t.key, t.tensor_id,
        arg_max(s.sum_sq, s.step) FILTER (s.step < f.first) AS before,
        max(s.sum_sq) FILTER (s.step = f.first) AS after
    FROM followed f JOIN optimizer_state_tensors t ON t.rank = f.rank
    JOIN tensor_stats s ON s.rank = t.rank
        AND s.tensor_id = t.tensor_id
        AND s.step BETWEEN f.first - $back AND f.first
    GROUP BY ALL
), moments AS (
    SELECT rank, optimizer_id, key, sqrt(sum(after)) AS value, sqrt(sum(before)) AS before,
        median(sqrt(after / before)) AS left_
    FROM held
    WHERE before > 0 AND isfinite(before) AND after IS NOT NULL
    GROUP BY ALL
)
SELECT f.rank, f.first AS step, f.optimizer, m.value, m.before, 'norm_of_the_state' AS what_, m.key,
    'with_a_new_optimizer' AS how_, f.optimizer_id,
    CASE WHEN (f.rank, f.first) IN (SELECT (rank, step)
        FROM data_changes) THEN 'warning' ELSE 'error' END AS severity
FROM followed f JOIN moments m ON m.rank = f.rank AND m.optimizer_id = f.optimizer_id
WHERE m.left_ < $fraction AND f.rank NOT IN (SELECT rank FROM inner_ UNION FROM staged UNION FROM grown)
QUALIFY row_number() OVER (PARTITION BY f.rank, f.optimizer_id ORDER BY m.left_) = 1
-- detector: state_put_into_another
-- an optimizer was given a state and never stepped; the one that stepped next, of the same class, began with
-- nothing
WITH given AS (
    SELECT rank, step, (detail->>'$.optimizer_id')::INTEGER AS optimizer_id,
        (detail->>'$.state_step')::DOUBLE AS state_step
    FROM events WHERE event = 'resume' AND detail->>'$.what' = 'optimizer'
), found AS (
    SELECT rank, (detail->>'$.optimizer_id')::INTEGER AS optimizer_id, detail->>'$.class' AS class
    FROM events WHERE event = 'optimizer-found'
)
SELECT n.rank, n.first AS step, n.optimizer, n.first_count AS value, g.state_step AS before,
    'step_counter' AS what_, 'state_put_into_another' AS how_, n.optimizer_id, 'error' AS severity
FROM given g
JOIN found f ON f.rank = g.rank AND f.optimizer_id = g.optimizer_id
JOIN ends n ON n.rank = g.rank
    AND n.first >= g.step
    AND n.optimizer_id <> g.optimizer_id
    AND n.optimizer = f.class
WHERE n.first_count <= 1
  AND g.state_step >= $counted
  AND NOT EXISTS (FROM counters c WHERE c.rank = g.rank AND c.optimizer_id = g.optimizer_id)
  AND NOT EXISTS (FROM given o WHERE o.rank = n.rank AND o.optimizer_id = n.optimizer_id)
QUALIFY row_number() OVER (PARTITION BY g.rank, g.optimizer_id ORDER BY n.first) = 1
-- detector: empty_state
-- weights were loaded, and the state that was put into the optimizer beside them held nothing
SELECT n.rank, n.first AS step, n.optimizer, n.first_count AS value, b.last_count AS before,
    'step_counter' AS what_, 'state_was_empty' AS how_, n.optimizer_id, 'error' AS severity
FROM checkpoints c
JOIN checkpoints w ON w.rank = c.rank AND w.step = c.step AND w.action = 'weights' AND w.entries > 0
JOIN ends n ON n.rank = c.rank AND n.optimizer_id = c.optimizer_id AND n.first = c.step AND n.first_count <= 1
JOIN (SELECT rank, step, max(state_step) AS last_count, any_value(optimizer) AS optimizer
    FROM counters
    GROUP BY rank, step) b
    ON b.rank = n.rank AND b.step = n.first - 1 AND b.optimizer = n.optimizer AND b.last_count >= $counted
WHERE c.action = 'optimizer' AND c.entries = 0
  -- from a file: the next fold may begin with a copy of the state of the beginning
  AND EXISTS (FROM checkpoints r WHERE r.rank = c.rank AND r.step = c.step AND r.action = 'read')
  AND n.rank NOT IN (SELECT rank FROM inner_)
QUALIFY row_number() OVER (PARTITION BY n.rank, n.optimizer_id ORDER BY n.first) = 1
-- detector: state_read_and_not_used
-- a file with nothing but an optimizer's state and what belongs to it was read beside the weights, and put
-- into no
-- optimizer: whoever only wants the weights does not read it
SELECT n.rank, n.first AS step, n.optimizer, n.first_count AS value, r.state_step AS before,
    'step_counter' AS what_, 'state_read_and_not_used' AS how_, n.optimizer_id, 'error' AS severity
FROM checkpoints r
JOIN checkpoints w ON w.rank = r.rank AND w.step = r.step AND w.action = 'weights' AND w.entries > 0
JOIN ends n ON n.rank = r.rank AND n.first = r.step AND n.first_count <= 1
WHERE r.action = 'read'
  AND r.optimizer_entries > 0
  AND r.state_step >= $counted
  AND len(list_filter(r.keys::JSON::VARCHAR[],
      lambda k: NOT regexp_matches(k, '(?i)optim|sched|scaler|^lr|step|epoch|rng|^state$|param_groups'))) = 0
  AND NOT EXISTS (FROM checkpoints o WHERE o.rank = r.rank AND o.action = 'optimizer' AND o.step = r.step)
  AND n.rank NOT IN (SELECT rank FROM inner_)
QUALIFY row_number() OVER (PARTITION BY n.rank, n.optimizer_id ORDER BY r.time_ns) = 1
-- detector: own_checkpoint_without_its_state
-- a checkpoint that this run has written is read into a new model, with a new optimizer at the rate of the
-- very beginning: a resume that puts only the weights back
WITH firsts AS (
    SELECT rank, optimizer_id, any_value(optimizer) AS optimizer, min(step) AS first, max(step) AS last,
        any_value(numel) AS numel, arg_min(lr, step) AS first_lr, arg_max(lr, step) AS last_lr,
        max(state_step) AS counted
    FROM counters GROUP BY rank, optimizer_id
)
SELECT h.rank, h.step, n.optimizer, coalesce(r.optimizer_entries > 0, false) AS kept,
    if(kept, 0, 1) AS value, if(kept, r.optimizer_entries, o.counted) AS before,
    r.epoch_name, n.first_lr AS lr,
    if(kept, 'kept_states', 'step_counter') AS what_,
    if(kept, 'own_checkpoint_without_it', 'own_checkpoint_has_none') AS how_, h.optimizer_id,
    CASE WHEN (h.rank, h.step) IN (SELECT (rank, step) FROM data_changes)
        OR (h.rank, h.step) IN (SELECT (rank, step) FROM other_sets)
        THEN 'warning' ELSE 'error' END AS severity
FROM handovers h
JOIN firsts n ON n.rank = h.rank AND n.optimizer_id = h.optimizer_id
JOIN firsts o ON o.rank = h.rank AND o.optimizer_id < h.optimizer_id AND o.optimizer = n.optimizer
    AND o.numel = n.numel
    AND o.last < h.step
    AND abs(n.first_lr - o.first_lr) <= $same_rate * o.first_lr
JOIN checkpoints r ON r.rank = h.rank AND r.step = h.step AND r.action = 'read' AND (r.optimizer_entries > 0
    -- a file that keeps the epoch is one to go on from; a rate that the schedule had lowered does not go on
    OR r.epoch IS NOT NULL AND o.counted >= $counted AND o.last_lr <= $half_rate * n.first_lr)
WHERE h.fresh
  AND (r.rank, r.step) IN (SELECT (rank, step) FROM own_weights)
  AND NOT EXISTS (FROM checkpoints g WHERE g.rank = r.rank AND g.step = r.step AND g.action = 'optimizer')
  AND h.rank NOT IN (SELECT rank FROM inner_ UNION FROM staged UNION FROM grown)
QUALIFY row_number() OVER (PARTITION BY h.rank, h.optimizer_id
    ORDER BY r.time_ns DESC, o.optimizer_id DESC) = 1
-- detector: new_optimizer_with_more
-- more parameters from this step on, by a new optimizer that holds all that the old one held, with the same
-- rates: they could have been added
SELECT n.rank, n.first AS step, n.optimizer, n.first_count AS value, o.last_count AS before,
    'step_counter' AS what_, 'with_a_new_optimizer_of_more' AS how_, n.optimizer_id, 'warning' AS severity
FROM ends n JOIN ends o ON o.rank = n.rank AND o.optimizer_id < n.optimizer_id AND o.last = n.first - 1
WHERE n.first > 0
  AND n.first_count <= 1
  AND o.last_count >= $counted
  AND n.optimizer = o.optimizer
  AND n.numel > o.numel
  AND n.rank NOT IN (SELECT rank FROM inner_)
  AND NOT EXISTS (FROM handovers h WHERE h.rank = n.rank AND h.optimizer_id = n.optimizer_id AND h.fresh)
  AND NOT EXISTS (
      FROM param_groups a
      LEFT JOIN param_groups b ON b.rank = a.rank
          AND b.step = n.first
          AND b.optimizer_id = n.optimizer_id
          AND b.group_id = a.group_id
      WHERE a.rank = o.rank
        AND a.step = o.last
        AND a.optimizer_id = o.optimizer_id
        AND NOT coalesce(b.numel >= a.numel AND abs(b.lr - a.lr) <= $same_rate * a.lr, false))
-- together
ORDER BY step, rank
