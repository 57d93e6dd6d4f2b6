/*
code = "OP009"
name = "scheduler-never-stepped"
severity = "error"
phase = "optimizer"
signal = "scheduler_steps"
message = "A {scheduler} was made for optimizer {optimizer_id}, but in {steps_} optimizer steps the script {how_}: the learning rate is {value}."
fix = "Call scheduler.step() after optimizer.step(), or, if it was planned in epochs, at the end of each epoch (Lightning: interval \"step\")."
seeks = ["schedulers: coalesce(total_steps, 0) <= 0 AND step >= least(1, $seen * $least - 1)"]
[say.how_]
never_stepped_it = "never stepped it"
stepped_another_one = "stepped another one, of an optimizer that steps no more"
[params.least]
value = 10
unit = "steps"
doc = "Optimizer steps before silence means anything."
source = "convention: of this project, fewer are a short test"
[params.idle]
value = 50
unit = "steps"
doc = "Steps of a run after which a stepped schedule has had the time to change the rate in the second half."
source = "convention: of this project, as many steps as tell a schedule that is over"
[params.seen]
value = 0.9
unit = "of the steps"
doc = "Share of the steps of the optimizer in which the scheduler was there."
source = "convention: of this project, one of ten may not be seen"
[needs]
tables = ["schedulers"]
columns = ["schedulers.total_steps"]
steps = 10
[doc]
what = "A scheduler exists during the whole run and is not stepped once. The run came to its end or began a second epoch. Or a scheduler made for a new optimizer is not stepped. The scheduler of the old optimizer, which steps no more, is."
why = "The schedule that was planned does not happen."
not_this = "A run that broke off in its first epoch. A scheduler inside another one. A scheduler beside one that is stepped and still changes the rate in the second half of the run. One that lives for the whole run but waits for a metric."
source = "Counting."
*/
WITH last AS (
    SELECT rank, scheduler_id, any_value(scheduler) AS scheduler, any_value(optimizer_id) AS optimizer_id,
        max(total_steps) AS total, count(DISTINCT step) AS rows_,
        min(step) AS first, arg_max(lr, step) AS lr
    FROM schedulers GROUP BY rank, scheduler_id
), whole AS (
    SELECT rank, optimizer_id, count(*) FILTER (stepped) AS steps_,
        (SELECT max(e.epoch) FROM steps e WHERE e.rank = steps.rank) AS epoch
    FROM steps GROUP BY rank, optimizer_id
), found AS (
    SELECT l.*, w.steps_, w.epoch, (SELECT by_itself FROM script_ended) AS completed
    FROM last l JOIN whole w ON w.rank = l.rank AND w.optimizer_id = l.optimizer_id
    WHERE l.first = 0 AND w.steps_ >= $least AND l.rows_ >= $seen * w.steps_
), busy AS (
    -- stepped, and not without anything left to do for the second half of the run
    SELECT o.rank, o.optimizer_id, o.scheduler_id
    FROM schedulers o JOIN (SELECT rank, max(step) AS last FROM steps GROUP BY rank) s ON s.rank = o.rank
    GROUP BY o.rank, o.optimizer_id, o.scheduler_id
    HAVING max(o.total_steps) > 0
        AND (max(s.last) < $idle OR count(DISTINCT o.lr) FILTER (2 * o.step >= s.last) <> 1)
), stale AS (
    -- made for a new optimizer, while the script goes on to step the scheduler of one that steps no more
    SELECT l.*,
        (SELECT count(*)
            FROM steps s
            WHERE s.rank = l.rank
              AND s.optimizer_id = l.optimizer_id
              AND s.stepped
              AND s.step >= l.first) AS of_optimizer
    FROM last l JOIN last o ON o.rank = l.rank AND o.optimizer_id <> l.optimizer_id AND o.first < l.first
    WHERE l.first > 0 AND l.total = 0 AND l.scheduler NOT LIKE '%Plateau%'
      AND NOT EXISTS (FROM steps s
          WHERE s.rank = o.rank AND s.optimizer_id = o.optimizer_id AND s.stepped AND s.step > l.first)
      AND o.total - (SELECT max(total_steps)
          FROM schedulers q
          WHERE q.rank = o.rank AND q.scheduler_id = o.scheduler_id AND q.step <= l.first) >= $least
)
SELECT rank, first AS step, lr AS value, scheduler, optimizer_id, of_optimizer AS steps_,
    'stepped_another_one' AS how_
FROM stale WHERE of_optimizer >= $least
UNION ALL BY NAME
SELECT rank, first AS step, lr AS value, scheduler, optimizer_id, steps_, 'never_stepped_it' AS how_
FROM found f
WHERE total = 0 AND scheduler NOT LIKE '%Plateau%' AND (completed OR epoch >= 1)
    AND NOT EXISTS (FROM busy o WHERE o.rank = f.rank AND o.optimizer_id = f.optimizer_id)
ORDER BY step, rank, optimizer_id
