/*
code = "OP009"
name = "scheduler-never-stepped"
severity = "error"
phase = "optimizer"
signal = "scheduler_steps"
message = "A {scheduler} was made for optimizer {optimizer_id}, but in {steps_} optimizer steps the script never stepped it: the learning rate stayed {value}."
fix = "Call scheduler.step() after optimizer.step(), or at the end of each epoch."
[params.least]
value = 10
unit = "steps"
doc = "Optimizer steps before silence means anything."
[needs]
tables = ["schedulers"]
columns = ["schedulers.total_steps"]
steps = 10
[doc]
what = "A scheduler that exists during the whole run and is not stepped once, in a run that came to its end or began a second epoch."
why = "The schedule that was planned does not happen."
not_this = "A run that broke off in its first epoch, a scheduler inside another one, one that lives for the whole run but waits for a metric."
source = "Counting."
*/
WITH last AS (
    SELECT rank, scheduler_id, any_value(scheduler) AS scheduler, any_value(optimizer_id) AS optimizer_id, max(total_steps) AS total, count(DISTINCT step) AS rows_,
        min(step) AS first, arg_max(lr, step) AS lr
    FROM schedulers GROUP BY rank, scheduler_id
), whole AS (
    SELECT rank, count(*) FILTER (stepped) AS steps_, max(epoch) AS epoch FROM steps GROUP BY rank
)
SELECT l.rank, l.first AS step, l.lr AS value, l.scheduler, l.optimizer_id, w.steps_
FROM last l JOIN whole w ON w.rank = l.rank
WHERE l.total = 0 AND l.first = 0 AND w.steps_ >= $least AND l.rows_ >= 0.9 * w.steps_
  AND l.scheduler NOT LIKE '%Plateau%'
  AND ((SELECT status FROM exits) = 'completed' OR w.epoch >= 1)
  AND NOT EXISTS (FROM schedulers o WHERE o.rank = l.rank AND o.optimizer_id = l.optimizer_id AND o.total_steps > 0)
ORDER BY step, rank, scheduler_id
