/*
code = "OP011"
name = "lr-jump-on-resume"
severity = "error"
phase = "optimizer"
signal = "lr"
message = "{resume_} before step {resumed} with a learning rate of {loaded}; at step {step} it goes from {before} to {value} ({factor} times){schedule_}."
fix = "Save and load the scheduler beside the optimizer: scheduler.load_state_dict(checkpoint['scheduler']). Create it before loading, or pass last_epoch. Set no rate over what was loaded. In a scheduler of one's own, compute each rate from last_epoch alone (>= and not ==)."
seeks = ["checkpoints: action = 'optimizer' AND lr > 0 OR action = 'weights'"]
explains = ["lr-spike", "lr-too-high", "loss-off-course", "exploding-gradients", "lr-too-low", "scheduler-before-optimizer", "nonfinite-tensor", "plateau"]
[say.resume_]
state_was_loaded = "Optimizer state was loaded"
attempt_ended = "The last attempt ended"
[say.schedule_]
without_state = "; no state was put into the {scheduler}, which counts from {last_epoch}"
stands_still = " and stays there to the end, while the {scheduler} counts on from {last_epoch}. Before the resume it had left its first rate at {moved_at}"
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
[params.left]
value = 0.05
unit = "relative"
doc = "How far from its first rate a schedule must have come before a resume that sets the first rate again for good."
source = "convention: of this project, a twentieth: less is soon made up for"
[needs]
tables = ["checkpoints", "param_groups"]
columns = ["param_groups.lr"]
[doc]
what = "Optimizer state is loaded, and the first change of the learning rate after it is a jump. It comes at once, or when a scheduler makes its first step. Or another attempt of the run continues with the weights and the optimizer's counter of the one before. But its scheduler counts from its beginning. Or it counts on, and its rate is the first one again and never changes, though it had changed at a lower count before the resume."
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
-- detector: no_further_after_loading
-- the same schedule counts on, past the count at which its rate had left the first one: now it is the first
-- one again, for longer than any rate had lasted since
WITH rows_ AS (
    SELECT s.rank, s.step, s.optimizer_id, s.scheduler_id, s.scheduler, s.last_epoch, g.lr,
        (g.settings->>'$.initial_lr')::DOUBLE AS first_lr,
        regexp_replace(s.settings, '"last_epoch":[^,}]*,?', '') AS settings
    FROM schedulers s
    JOIN param_groups g ON g.rank = s.rank
        AND g.optimizer_id = s.optimizer_id
        AND g.step = s.step
        AND g.group_id = 0
    -- one on a metric waits as long as it likes
    WHERE s.last_epoch IS NOT NULL AND s.scheduler <> 'ReduceLROnPlateau'
), loads AS (
    SELECT rank, optimizer_id, step AS resumed, max(lr) AS loaded
    FROM checkpoints
    WHERE action = 'optimizer' AND lr > 0 AND entries > 0
    GROUP BY ALL
), after_ AS (
    SELECT l.rank, l.optimizer_id, l.resumed, l.loaded, any_value(r.scheduler) AS scheduler,
        any_value(r.settings) AS settings, max(r.lr) AS lr,
        min(r.last_epoch) AS last_epoch, max(r.last_epoch) - min(r.last_epoch) AS lasted
    FROM loads l
    JOIN rows_ r ON r.rank = l.rank AND r.optimizer_id = l.optimizer_id AND r.step >= l.resumed
    GROUP BY ALL
    HAVING count(DISTINCT r.scheduler_id) = 1 AND count(DISTINCT r.settings) = 1
       AND max(abs(r.lr / r.first_lr - 1)) <= $same
), changes AS (
    SELECT a.rank, a.optimizer_id, a.resumed, r.last_epoch, r.lr, r.first_lr,
        abs(r.lr / lag(r.lr) OVER w - 1) > $same AS changed, count(*) OVER w AS n
    FROM after_ a
    JOIN rows_ r ON r.rank = a.rank
        AND r.step < a.resumed
        AND r.scheduler = a.scheduler
        AND r.settings = a.settings
        AND r.last_epoch <= a.last_epoch
    WINDOW w AS (PARTITION BY a.rank, a.optimizer_id, a.resumed, r.scheduler_id ORDER BY r.step)
), before_ AS (
    SELECT rank, optimizer_id, resumed, min(last_epoch) FILTER (changed) AS moved_at,
        max(last_epoch) AS last_epoch, arg_max(lr, last_epoch) AS lr
    FROM changes
    GROUP BY ALL
    HAVING abs(arg_max(lr, last_epoch) / arg_max(first_lr, last_epoch) - 1) > $left
), waits AS (
    SELECT c.rank, c.optimizer_id, c.resumed,
        max(c.last_epoch - coalesce(c.before, b.moved_at)) AS longest, max(c.last_epoch) AS last_change
    FROM (SELECT *, lag(last_epoch) OVER w AS before
        FROM changes WHERE changed
        WINDOW w AS (PARTITION BY rank, optimizer_id, resumed ORDER BY last_epoch)) c
    JOIN before_ b ON b.rank = c.rank AND b.optimizer_id = c.optimizer_id AND b.resumed = c.resumed
    GROUP BY ALL
)
SELECT 'state_was_loaded' AS resume_, a.rank, a.resumed AS step, a.lr AS value, a.loaded AS before, a.loaded,
    a.lr / a.loaded AS factor, a.resumed, a.optimizer_id, a.scheduler, a.last_epoch, b.moved_at,
    'stands_still' AS schedule_, 'error' AS severity
FROM after_ a
JOIN before_ b ON b.rank = a.rank AND b.optimizer_id = a.optimizer_id AND b.resumed = a.resumed
JOIN waits w ON w.rank = a.rank AND w.optimizer_id = a.optimizer_id AND w.resumed = a.resumed
WHERE b.moved_at >= $counted
  AND a.lasted > greatest($counted, w.longest, b.last_epoch - w.last_change)
-- together
QUALIFY row_number() OVER (PARTITION BY rank, optimizer_id, resumed ORDER BY severity, step) = 1
ORDER BY severity, step, rank, optimizer_id
