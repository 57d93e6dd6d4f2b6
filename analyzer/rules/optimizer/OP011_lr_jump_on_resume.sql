/*
code = "OP011"
name = "lr-jump-on-resume"
severity = "error"
phase = "optimizer"
signal = "lr"
message = "{resume_} before step {resumed} with a learning rate of {loaded}; at step {step} it goes from {before} to {value} ({factor} times){schedule_}."
fix = "Save and load the scheduler beside the optimizer: scheduler.load_state_dict(checkpoint['scheduler']). Create it before loading, or pass last_epoch. Set no rate over what was loaded."
explains = ["lr-spike", "lr-too-high", "loss-off-course", "exploding-gradients", "lr-too-low", "scheduler-before-optimizer", "nonfinite-tensor", "plateau"]
[say.resume_]
state_was_loaded = "Optimizer state was loaded"
attempt_ended = "The last attempt ended"
[say.schedule_]
without_state = "; no state was put into the {scheduler}, which counts from {last_epoch}"
[params.factor]
value = 1.5
unit = "times"
doc = "Change of the learning rate across the resume that counts as a jump. Schedules change by less from one step to the next."
source = "convention: of this project, schedules change by less from one step to the next"
[params.counted]
value = 3
unit = "steps"
doc = "Steps that an optimizer's state, or a schedule, must have counted."
source = "convention: of this project, after fewer there is little to jump from"
[params.same]
value = 1e-6
unit = "relative"
doc = "Change of a learning rate that is none."
source = "convention: of this project, rounding"
[needs]
tables = ["checkpoints", "param_groups"]
columns = ["param_groups.lr"]
[doc]
what = "Optimizer state is loaded, and the first change of the learning rate after it is a jump. It comes at once, or when a scheduler makes its first step. Or another attempt of the run continues with the weights and the optimizer's counter of the one before. But its scheduler counts from its beginning."
why = "The scheduler starts from its beginning while weights and moments are in the middle of the training. A warmed-up or peak rate hits a model whose rate had decayed to a small one."
not_this = "A scheduler whose state was loaded too. This does not hold if a new one took its place. Nor does it if the first step already has a higher rate than was loaded. A schedule that goes on as it was, a decay some steps later. A lower rate set by hand after loading (a warning: it is often meant)."
source = "Counting; the factor lies above the step of usual schedules."
*/
-- detector: after_loading_state
WITH loads AS (
    SELECT rank, optimizer_id, step AS resumed, time_ns, lr AS loaded,
        coalesce(state_step, CASE WHEN entries > 0 THEN $counted ELSE 0 END) AS state_step,
        lead(step) OVER (PARTITION BY rank, optimizer_id ORDER BY step, time_ns) AS next_load
    FROM checkpoints WHERE action = 'optimizer' AND lr > 0
), rates AS (
    SELECT g.rank, g.optimizer_id, g.step, g.lr, l.resumed, l.loaded, l.state_step,
        coalesce(lag(g.lr) OVER w, l.loaded) AS before, row_number() OVER w AS n
    FROM loads l JOIN param_groups g ON g.rank = l.rank AND g.optimizer_id = l.optimizer_id AND g.group_id = 0
        AND g.step >= l.resumed
          AND g.step < coalesce(l.next_load, 9223372036854775807)
          AND l.resumed < coalesce(l.next_load, l.resumed + 1)
    WINDOW w AS (PARTITION BY l.rank, l.optimizer_id, l.resumed ORDER BY g.step)
), changes AS (
    SELECT *, lr / before AS factor FROM rates WHERE before > 0 AND lr > 0 AND abs(lr / before - 1) > $same
    QUALIFY row_number() OVER (PARTITION BY rank, optimizer_id, resumed ORDER BY n) = 1
), schedules AS (
    SELECT c.rank, c.optimizer_id, c.resumed, any_value(s.scheduler) AS scheduler,
        min(s.last_epoch) AS last_epoch
    FROM changes c
    JOIN schedulers s ON s.rank = c.rank
        AND s.optimizer_id = c.optimizer_id
        AND s.step BETWEEN c.resumed AND c.step
    GROUP BY ALL
)
SELECT 'state_was_loaded' AS resume_, c.rank, c.step, c.lr AS value, c.before, c.loaded,
    c.factor, c.resumed, c.optimizer_id, s.scheduler, s.last_epoch,
    CASE WHEN s.scheduler IS NOT NULL
        AND NOT EXISTS (FROM checkpoints k
            WHERE k.rank = c.rank
              AND k.action = 'scheduler'
              AND k.step BETWEEN c.resumed - 1 AND c.step
              AND coalesce(k.last_epoch, 0) <= s.last_epoch) THEN 'without_state' END AS schedule_,
    CASE WHEN c.factor > 1 OR s.scheduler IS NOT NULL THEN 'error' ELSE 'warning' END AS severity
FROM changes c
LEFT JOIN schedules s ON s.rank = c.rank AND s.optimizer_id = c.optimizer_id AND s.resumed = c.resumed
WHERE (c.factor > $factor
    -- down it goes by the schedule too, whose counter the script has set to where it was
    OR (1 / c.factor > $factor AND c.n <= 2 AND coalesce(s.last_epoch, 0) <= c.n))
  AND c.state_step >= $counted
  -- a schedule whose state was loaded too goes on, but not if another one, that counts from its
  -- beginning, sets the rate
  AND (NOT EXISTS (SELECT 1
      FROM checkpoints k
      WHERE k.rank = c.rank AND k.action = 'scheduler' AND k.step BETWEEN c.resumed - 1 AND c.step)
    -- or if the very first step has another rate than was loaded: it was set over what was loaded, no
    -- schedule has made a step yet
    OR (c.factor > $factor AND c.n = 1)
    OR (c.factor > $factor AND c.n <= 2 AND s.last_epoch < c.n AND NOT EXISTS (
        SELECT 1
        FROM checkpoints k
        WHERE k.rank = c.rank
          AND k.action = 'scheduler'
          AND k.step BETWEEN c.resumed - 1 AND c.step
          AND coalesce(k.last_epoch, 0) <= s.last_epoch)))
-- detector: in_the_next_attempt
SELECT 'attempt_ended' AS resume_, r.rank, r.step, r.lr AS value, r.before, r.before AS loaded,
    r.lr / r.before AS factor, r.step AS resumed, r.optimizer_id, s.scheduler, s.last_epoch,
    'without_state' AS schedule_, 'error' AS severity
FROM (
    SELECT *, lag(lr) OVER w AS before, lag(state_step) OVER w AS counted
    FROM param_groups
    WHERE group_id = 0
    WINDOW w AS (PARTITION BY rank, optimizer_id ORDER BY step)
) r
JOIN events a ON a.rank = r.rank AND a.event = 'attempt' AND a.step = r.step
JOIN (SELECT rank, optimizer_id, step, any_value(scheduler) AS scheduler, min(last_epoch) AS last_epoch
    FROM schedulers
    GROUP BY ALL) s
    ON s.rank = r.rank AND s.optimizer_id = r.optimizer_id AND s.step = r.step AND s.last_epoch <= 1
WHERE r.before > 0
  AND r.lr > 0
  AND (r.lr > $factor * r.before OR r.before > $factor * r.lr)
  AND r.state_step > r.counted
  AND r.counted >= $counted
  AND EXISTS (FROM checkpoints k WHERE k.rank = r.rank AND k.action = 'weights' AND k.step = r.step)
  AND NOT EXISTS (FROM checkpoints k
      WHERE k.rank = r.rank AND k.action IN ('optimizer', 'scheduler') AND k.step = r.step)
  -- the schedule had gone on before it began again
  AND EXISTS (FROM schedulers h
      WHERE h.rank = r.rank
        AND h.optimizer_id = r.optimizer_id
        AND h.step < r.step
        AND h.last_epoch >= $counted)
-- together
ORDER BY severity, step, rank, optimizer_id
