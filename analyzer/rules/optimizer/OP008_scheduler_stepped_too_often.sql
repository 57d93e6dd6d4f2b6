/*
code = "OP008"
name = "scheduler-stepped-too-often"
severity = "error"
phase = "optimizer"
signal = "scheduler_steps"
message = "From step {step} on {scheduler} is stepped {value} times for every optimizer step: the schedule runs {value} times as fast as the training."
fix = "Step the scheduler once after each optimizer.step(), not once per microbatch or in two places."
explains = ["scheduler-before-optimizer", "zero-lr", "lr-too-low", "plateau"]
[params.least]
value = 3
unit = "steps"
doc = "Optimizer steps on end with more than one scheduler step."
[needs]
tables = ["schedulers"]
columns = ["schedulers.steps"]
steps = 3
[doc]
what = "A scheduler whose step() the script calls two or more times for each optimizer step."
why = "The learning rate reaches its end after a fraction of the training."
not_this = "A scheduler stepped once, one inside another scheduler, catching up on resume before the first step, schedulers on a metric, as many steps as there are ranks (accelerate does that on purpose)."
source = "Counting; no threshold but persistence."
*/
WITH rows_ AS (
    SELECT *, row_number() OVER (PARTITION BY rank, scheduler_id ORDER BY step) AS n FROM schedulers WHERE scheduler NOT LIKE '%Plateau%'
), runs AS (
    SELECT *, n - row_number() OVER (PARTITION BY rank, scheduler_id, coalesce(steps, 0) >= 2 ORDER BY n) AS island FROM rows_
), often AS (
    SELECT rank, scheduler_id, scheduler, optimizer_id, island, min(step) AS step, count(*) AS rows_, median(steps) AS times, min(n) AS n
    FROM runs WHERE steps >= 2 GROUP BY ALL
)
-- step() comes after the optimizer's, so what a row counts happened after the row before
SELECT rank, greatest(step - 1, 0) AS step, times::BIGINT AS value, scheduler, optimizer_id, rows_ AS steps_
FROM often WHERE rows_ >= $least AND times <> (SELECT coalesce(max(world_size), 1) FROM ranks WHERE world_size > 1)
   OR rows_ >= $least AND (SELECT coalesce(max(world_size), 1) FROM ranks) = 1
ORDER BY step, rank, scheduler_id
