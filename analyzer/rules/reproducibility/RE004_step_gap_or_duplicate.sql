/*
code = "RE004"
name = "step-gap-or-duplicate"
severity = "error"
phase = "optimizer"
signal = "counter"
message = "{said_}: {off} steps are {what_}."
fix = "Continue counting where the checkpoint ends. Start the loop at checkpoint['{counter_name}'] + 1, or at it if it counts finished steps. Never start the count again. Save the number that the loop is at."
seeks = [
    ["checkpoints: action = 'optimizer'", "checkpoints: action = 'saved' AND (epoch IS NOT NULL OR counter IS NOT NULL)"],
]
explains = ["lr-jump-on-resume"]
[say.said_]
logged = "Where optimizer state was loaded the step that is logged with {name} goes from {logged_before} to {value}"
saved = "The checkpoint that was loaded before step {step} says {counter_name} = {loaded}; {later} steps later the next one says {saved} instead of {expected}"
epoch_again = "The checkpoint that was loaded before step {step} says {counter_name} = {loaded}, and was written at the end of that epoch; {later} steps later the next one says {saved} again"
never_counts = "All {times} checkpoints say {counter_name} = {value}, also those of later epochs, from step {step} on"
[say.what_]
made_again = "made again by a resume from the last one"
counted_twice = "counted twice"
trained_again = "trained again, the whole epoch"
left_out = "left out"
[params.irregular]
value = 3
unit = "logs"
doc = "Irregular strides of a counter, at most."
source = "convention: of this project, more are how it counts"
[params.before]
value = 5
unit = "logs"
doc = "Regular strides before."
source = "convention: of this project, fewer do not show how it counts"
[params.after]
value = 3
unit = "logs"
doc = "Regular strides after."
source = "convention: of this project, fewer do not show how it goes on"
[params.saves]
value = 3
unit = "checkpoints"
doc = "Checkpoints of different epochs that say the same number."
source = "convention: of this project, two may be of one epoch and its end"
[needs]
tables = ["checkpoints", "steps"]
[doc]
what = "A script that saves its own step counter loads it together with optimizer state. Its next checkpoint shows that the counter did not continue from there. Or its logged step numbers jump where optimizer state is loaded, and leave the count of the optimizer. It is advice where the saved counter is off by one. Or checkpoints that hold an epoch are written at its end, one for each. After a resume the next one holds the epoch that was loaded, as many steps later as an epoch has. Or all checkpoints say the same epoch or step, whatever the loop is at."
why = "Schedules, logs, evaluation and the number of steps to train all follow that counter. Some steps are made twice or never."
not_this = "Checkpoints in mid-epoch, whose epoch begins anew. Checkpoints of an epoch's beginning. Epochs beside data without a loader. Counters that count finished or current steps, as long as they do it the same way before and after. A loop that goes on counting over a rollback."
source = "Counting."
*/
-- detector: logged_step_leaps
WITH counts AS (
    SELECT rank, step, max(state_step) AS state_step FROM param_groups GROUP BY rank, step
), logs AS (
    SELECT m.rank, m.source, m.name, m.step, max(m.logged_step) AS logged,
        any_value(c.state_step) AS state_step
    FROM metrics m
    JOIN counts c ON c.rank = m.rank AND c.step = m.step
    WHERE m.logged_step IS NOT NULL AND c.state_step IS NOT NULL
    GROUP BY m.rank, m.source, m.name, m.step
), strides AS (
    SELECT *, step - lag(step) OVER w AS made, logged - lag(logged) OVER w AS counted,
        lag(logged) OVER w AS logged_before, logged - state_step AS ahead,
        lag(logged - state_step) OVER w AS ahead_before
    FROM logs WINDOW w AS (PARTITION BY rank, source, name ORDER BY step)
), leaps AS (
    -- the number leaps, and not as the optimizer's own count does: with both going back it is a return to an
    -- earlier state
    SELECT *,
        count(CASE WHEN counted = made AND ahead = ahead_before THEN 1 END) OVER (PARTITION BY rank, source,
            name
            ORDER BY step ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS regular,
        count(CASE WHEN counted <> made OR ahead <> ahead_before THEN 1 END) OVER (PARTITION BY rank, source,
            name) AS irregular,
        count(CASE WHEN counted = made AND ahead = ahead_before THEN 1 END) OVER (PARTITION BY rank, source,
            name
            ORDER BY step ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS regular_after
    FROM strides
), logged_ AS (
    SELECT l.rank, l.step - l.made + 1 AS step, l.logged_before, l.logged, abs(l.counted - l.made) AS off,
        CASE WHEN l.counted < l.made THEN 'counted_twice' ELSE 'left_out' END AS what_, l.name
    FROM leaps l
    WHERE l.counted <> l.made
      AND l.ahead <> l.ahead_before
      AND abs(l.counted - l.made) >= 2
      AND l.irregular <= $irregular
      AND l.regular >= $before
      AND l.regular_after >= $after
      AND EXISTS (FROM checkpoints k
          WHERE k.rank = l.rank AND k.action = 'optimizer' AND k.step BETWEEN l.step - l.made AND l.step)
    QUALIFY row_number() OVER (PARTITION BY l.rank ORDER BY l.step, l.name) = 1
)
SELECT rank, step, 'step' AS counter_name, logged AS value, logged_before, name, off, 'logged' AS said_,
    what_, 'error' AS severity
FROM logged_
-- detector: saved_counter_leaps
WITH files AS (
    SELECT rank, step, time_ns, action, counter_name, counter, state_step
    FROM checkpoints
    WHERE counter IS NOT NULL AND action IN ('saved', 'read')
), resumes AS (
    SELECT f.rank, f.counter_name, f.counter AS loaded, f.time_ns AS read_ns, o.step, o.time_ns,
        coalesce(f.state_step, o.state_step) AS state_step
    FROM files f
    JOIN checkpoints o ON o.rank = f.rank
        AND o.action = 'optimizer'
        AND o.time_ns >= f.time_ns
        AND o.step = f.step
    WHERE f.action = 'read'
    QUALIFY row_number() OVER (PARTITION BY f.rank, f.counter_name, o.step
        ORDER BY f.time_ns DESC, o.time_ns) = 1
), next_ AS (
    SELECT r.*, f.step AS saved_at, f.counter AS saved FROM resumes r
    JOIN files f ON f.rank = r.rank
        AND f.counter_name = r.counter_name
        AND f.action = 'saved'
        AND f.time_ns > r.time_ns
        AND f.step > r.step
    QUALIFY row_number() OVER (PARTITION BY r.rank, r.counter_name, r.step ORDER BY f.time_ns) = 1
), before AS (
    SELECT n.rank, n.counter_name, n.step, f.step AS last_at, f.counter AS last_ FROM next_ n
    JOIN files f ON f.rank = n.rank
        AND f.counter_name = n.counter_name
        AND f.action = 'saved'
        AND f.time_ns < n.read_ns
    QUALIFY row_number() OVER (PARTITION BY n.rank, n.counter_name, n.step ORDER BY f.time_ns DESC) = 1
)
SELECT n.rank, n.step, n.counter_name, n.loaded, n.saved, n.saved_at - n.step AS later,
    n.loaded + n.saved_at - n.step AS expected, n.saved AS value, 'saved' AS said_,
    abs(n.saved - n.loaded - (n.saved_at - n.step)) AS off,
    -- a counter that is one off skips or repeats one step of many, and often by what it counts
    CASE WHEN abs(n.saved - n.loaded - (n.saved_at - n.step)) = 1 THEN 'warning' ELSE 'error' END AS severity,
    CASE WHEN n.saved < n.loaded + n.saved_at - n.step THEN 'counted_twice' ELSE 'left_out' END AS what_
FROM next_ n LEFT JOIN before b USING (rank, counter_name, step)
WHERE n.saved - n.loaded <> n.saved_at - n.step
  -- it counts optimizer steps: the counter agrees with the optimizer's own, or with the steps recorded at a
  -- save before
  AND (abs(n.loaded - n.state_step) <= 1 OR abs(n.loaded - b.last_at) <= 1)
  AND coalesce(n.saved - b.last_ <> n.saved_at - b.last_at, true)
-- detector: saved_epoch_comes_again
WITH files AS (
    SELECT rank, step, time_ns, action, path, epoch_name, epoch, state_step FROM checkpoints
    WHERE epoch IS NOT NULL AND action IN ('saved', 'read')
), resumes AS (
    SELECT f.* EXCLUDE (action, time_ns), f.time_ns AS read_ns, o.time_ns
    FROM files f
    JOIN checkpoints o ON o.rank = f.rank
        AND o.action = 'optimizer'
        AND o.time_ns >= f.time_ns
        AND o.step = f.step
    WHERE f.action = 'read'
    QUALIFY row_number() OVER (PARTITION BY f.rank, o.step ORDER BY f.time_ns DESC, o.time_ns) = 1
), later AS (
    SELECT r.rank, r.step, f.step AS saved_at, f.epoch AS saved, f.state_step,
        dense_rank() OVER (PARTITION BY r.rank, r.step ORDER BY f.step) AS n
    FROM resumes r
    JOIN files f ON f.rank = r.rank AND f.epoch_name = r.epoch_name
        AND f.action = 'saved'
        AND f.time_ns > r.time_ns
    QUALIFY row_number() OVER (PARTITION BY r.rank, r.step, f.step ORDER BY f.time_ns) = 1
), earlier AS (
    SELECT r.rank, r.step, f.epoch, min(f.step) AS saved_at, count(DISTINCT f.step) AS places,
        bool_or(f.epoch = r.epoch AND (f.path = r.path OR f.state_step = r.state_step)) AS is_loaded
    FROM resumes r
    JOIN files f ON f.rank = r.rank AND f.epoch_name = r.epoch_name
        AND f.action = 'saved'
        AND f.time_ns < r.read_ns
    GROUP BY r.rank, r.step, f.epoch
), turns AS (
    -- steps before which a pass over the data ends, as far as they were watched
    SELECT DISTINCT b.rank, b.batch_index = 0 AS begins,
        CASE
            WHEN begins THEN b.step
            ELSE b.step + 1 + (b.loader_batches - 1 - b.batch_index) // greatest(s.microbatches, 1)
            END AS step
    FROM batches b JOIN steps s ON s.rank = b.rank AND s.step = b.step
    WHERE b.phase <> 'eval' AND b.loader_id IS NOT NULL AND b.rank IN (SELECT rank FROM resumes)
), lengths AS (
    -- one checkpoint for each epoch of this recording, the loaded one among them
    SELECT e.rank, e.step, (l.saved_at - e.saved_at) / (l.epoch - e.epoch) AS epoch_steps,
        [e.saved_at, l.saved_at] AS ends
    FROM earlier e
    JOIN earlier l ON l.rank = e.rank AND l.step = e.step AND l.is_loaded AND e.epoch < l.epoch
    WHERE NOT EXISTS (FROM earlier o WHERE o.rank = e.rank AND o.step = e.step AND o.places > 1)
    QUALIFY row_number() OVER (PARTITION BY e.rank, e.step ORDER BY e.epoch DESC) = 1
    UNION ALL
    -- or the optimizer's own count tells that whole epochs lie behind the loaded one
    SELECT r.rank, r.step, s.saved_at - f.saved_at, [f.saved_at, s.saved_at]
    FROM resumes r
    JOIN later f ON f.rank = r.rank AND f.step = r.step AND f.n = 1
    JOIN later s ON s.rank = r.rank AND s.step = r.step AND s.n = 2 AND s.saved = r.epoch + 1
    WHERE r.epoch > 0
      AND NOT EXISTS (FROM earlier e WHERE e.rank = r.rank AND e.step = r.step)
      AND s.saved_at > f.saved_at
      AND f.state_step - r.state_step = s.saved_at - f.saved_at
      AND s.state_step - f.state_step = s.saved_at - f.saved_at
      AND r.state_step / (s.saved_at - f.saved_at) IN (r.epoch, r.epoch + 1)
)
SELECT r.rank, r.step, r.epoch_name AS counter_name, r.epoch AS loaded, f.saved, f.saved AS value,
    f.saved_at - r.step AS later, f.saved_at - r.step AS off, 'epoch_again' AS said_,
    'trained_again' AS what_, 'error' AS severity
FROM resumes r
JOIN later f ON f.rank = r.rank AND f.step = r.step AND f.n = 1 AND f.saved = r.epoch
JOIN lengths n ON n.rank = r.rank AND n.step = r.step AND f.saved_at - r.step = n.epoch_steps
WHERE n.epoch_steps > 0
  -- the resume begins a pass of its own
  AND EXISTS (FROM turns t WHERE t.rank = r.rank AND t.step IN n.ends AND NOT (t.begins AND t.step = r.step))
-- detector: never_counts
WITH saved AS (
    SELECT c.rank, c.step, c.epoch_name AS name, c.epoch AS value,
        (SELECT max(s.epoch) FROM steps s WHERE s.rank = c.rank AND s.step <= c.step) AS moment
    FROM checkpoints c WHERE c.action = 'saved' AND c.epoch IS NOT NULL
    UNION ALL
    SELECT rank, step, counter_name, counter, step FROM checkpoints
    WHERE action = 'saved' AND counter IS NOT NULL
), counted AS (
    SELECT *, row_number() OVER (PARTITION BY rank, name ORDER BY step) AS n
    FROM saved WHERE moment IS NOT NULL
)
SELECT rank, min(step) FILTER (n > 1) AS step, name AS counter_name, any_value(value) AS value,
    count(*) AS times,
    max(step) - min(step) AS off, 'never_counts' AS said_, 'made_again' AS what_,
    -- a number that no count begins with may be one of the settings
    CASE WHEN any_value(value) <= 1 THEN 'error' ELSE 'warning' END AS severity
FROM counted
GROUP BY rank, name
HAVING count(DISTINCT value) = 1 AND count(DISTINCT moment) >= $saves
-- together
ORDER BY step, rank
