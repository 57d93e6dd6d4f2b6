/*
code = "OP010"
name = "scheduler-before-optimizer"
severity = "error"
phase = "optimizer"
signal = "calls"
message = "{scheduler} is stepped {where_} ({value}: b backward, l scheduler, s optimizer): the first learning rate of the schedule is never used."
fix = "Call optimizer.step() first, then scheduler.step()."
[needs]
tables = ["schedulers", "steps"]
columns = ["steps.calls", "schedulers.before_optimizer"]
[doc]
what = "A scheduler that steps after backward and before the optimizer's step, from the first step on; or at the head of the loop, once before the first step of the optimizer, and as often as the optimizer steps."
why = "Every step uses the rate meant for the next; the first value of the schedule is skipped."
not_this = "A first optimizer step that a GradScaler left out, catching up on resume, a scheduler that is stepped once when it is made, one that is stepped at the end of each epoch."
source = "Order of calls; torch has asked for the other order since 1.1."
*/
SELECT s.rank, s.step, s.calls AS value, c.scheduler, s.optimizer_id, 'between backward and optimizer.step' AS where_
FROM steps s JOIN (SELECT DISTINCT rank, optimizer_id, scheduler FROM schedulers WHERE before_optimizer) c
    ON c.rank = s.rank AND c.optimizer_id = s.optimizer_id
WHERE s.stepped AND regexp_matches(s.calls, 'b[^sbf]*l[^sbf]*s')
UNION ALL BY NAME
SELECT s.rank, s.step, s.calls AS value, c.scheduler, s.optimizer_id, 'at the head of the loop, before the optimizer' AS where_
FROM (FROM steps WHERE stepped QUALIFY row_number() OVER (PARTITION BY rank, optimizer_id ORDER BY step) = 1) s
JOIN (
    SELECT rank, optimizer_id, scheduler_id, any_value(scheduler) AS scheduler, min(step) AS first_step, arg_min(total_steps, step) AS first_total, sum(steps) AS times,
        count(*) FILTER (before_optimizer) AS early
    FROM schedulers GROUP BY ALL
) c ON c.rank = s.rank AND c.optimizer_id = s.optimizer_id
-- one step before the first of the optimizer, in a loop in which every iteration begins with it: had it been stepped once
-- when it was made and then at the end of each iteration, there would be one step more than the optimizer has made
WHERE c.first_step = s.step AND c.first_total = 1 AND c.early >= 1 AND regexp_matches(s.calls, '^[^sbf]*l[^sbf]*[bf][^l]*s$')
  AND c.times >= 3 AND c.times = (SELECT count(*) FROM steps o WHERE o.rank = s.rank AND o.optimizer_id = s.optimizer_id AND o.stepped)
ORDER BY step, rank, optimizer_id
