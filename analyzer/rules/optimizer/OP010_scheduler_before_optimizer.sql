/*
code = "OP010"
name = "scheduler-before-optimizer"
severity = "error"
phase = "optimizer"
signal = "calls"
message = "{scheduler} is stepped {where_} ({value}: b backward, l scheduler, s optimizer). The first learning rate of the schedule is never used."
fix = "Call optimizer.step() first, then scheduler.step()."
seeks = ["schedulers: before_optimizer"]
[say.where_]
between_backward_and_step = "between backward and optimizer.step"
at_the_head_of_the_loop = "at the head of the loop, before the optimizer"
at_the_head_of_each_epoch = "at the head of each epoch, before the optimizer"
[params.times]
value = 3
unit = "times"
doc = "How often it must have happened."
source = "convention: of this project, once or twice is a start"
[needs]
tables = ["schedulers", "steps"]
columns = ["steps.calls", "schedulers.before_optimizer"]
[doc]
what = "A scheduler steps after backward and before the optimizer's step, from the first step on. Or it steps at the head of the loop, once before the first step of the optimizer. It steps as often as the optimizer. Or it does so at the head of each epoch."
why = "Every step uses the rate meant for the next; the first value of the schedule is skipped."
not_this = "A first optimizer step that a GradScaler left out, catching up on resume. A scheduler that is stepped once when it is made. One that is stepped at the end of each epoch."
source = "Order of calls; torch has asked for the other order since 1.1."
*/
SELECT s.rank, s.step, s.calls AS value, c.scheduler, s.optimizer_id, 'between_backward_and_step' AS where_
FROM steps s JOIN (SELECT DISTINCT rank, optimizer_id, scheduler FROM schedulers WHERE before_optimizer) c
    ON c.rank = s.rank AND c.optimizer_id = s.optimizer_id
WHERE s.stepped AND regexp_matches(s.calls, 'b[^sbf]*l[^sbf]*s')
  -- several times before one update: too often, whatever the order
  AND NOT regexp_matches(s.calls, 'l[^s]*[bf][^s]*l[^s]*s')
UNION ALL BY NAME
SELECT s.rank, s.step, s.calls AS value, c.scheduler, s.optimizer_id, 'at_the_head_of_the_loop' AS where_
FROM (FROM steps
    WHERE stepped
    QUALIFY row_number() OVER (PARTITION BY rank, optimizer_id ORDER BY step) = 1) s
JOIN (
    SELECT rank, optimizer_id, scheduler_id, any_value(scheduler) AS scheduler, min(step) AS first_step,
        arg_min(total_steps, step) AS first_total, sum(steps) AS times,
        count(*) FILTER (before_optimizer) AS early
    FROM schedulers GROUP BY ALL
) c ON c.rank = s.rank AND c.optimizer_id = s.optimizer_id
-- one step before the first of the optimizer, in a loop in which every iteration begins with it: had it been
-- stepped once
-- when it was made and then at the end of each iteration, there would be one step more than the optimizer has
-- made
WHERE c.first_step = s.step
  AND c.first_total = 1
  AND c.early >= 1
  AND regexp_matches(s.calls, '^[^sbf]*l[^sbf]*[bf][^l]*s$')
  AND c.times >= $times
    AND c.times = (SELECT count(*)
        FROM steps o
        WHERE o.rank = s.rank AND o.optimizer_id = s.optimizer_id AND o.stepped)
UNION ALL BY NAME
-- the same at the head of each epoch: equal distances, and as many epochs as scheduler steps; had it been
-- stepped once when it was
-- made and then at the end of each epoch, there would be one more
SELECT h.rank, h.step, h.calls AS value, h.scheduler, h.optimizer_id, 'at_the_head_of_each_epoch' AS where_
FROM (
    SELECT c.rank, c.scheduler_id, any_value(c.scheduler) AS scheduler,
        any_value(c.optimizer_id) AS optimizer_id, min(c.step) AS step, arg_min(c.calls, c.n) AS calls,
        count(*) AS times, max(c.n - c.n_before) AS longest, min(c.n - c.n_before) AS shortest,
            any_value(c.optimizer_steps) AS optimizer_steps, arg_min(c.total_steps, c.n) AS first_total,
        min(c.n) AS first_n, bool_and(c.steps = 1) AS single, bool_and(c.before_optimizer) AS early
    FROM (
        SELECT k.*, o.n, o.calls, o.optimizer_steps,
            lag(o.n) OVER (PARTITION BY k.rank, k.scheduler_id ORDER BY k.step) AS n_before
        FROM schedulers k LEFT JOIN (
            SELECT s.rank, s.step, s.optimizer_id, s.calls,
                row_number() OVER w
                    + coalesce(sum(u.steps) FILTER (u.step < s.step), 0) AS n,
                count(*) OVER (PARTITION BY s.rank, s.optimizer_id)
                    + coalesce(sum(u.steps), 0) AS optimizer_steps
            FROM steps s LEFT JOIN unwatched_steps u ON u.rank = s.rank
            WHERE s.stepped AND s.optimizer_id IS NOT NULL
            GROUP BY s.rank, s.step, s.optimizer_id, s.calls
            WINDOW w AS (PARTITION BY s.rank, s.optimizer_id ORDER BY s.step)
        ) o ON o.rank = k.rank AND o.step = k.step AND o.optimizer_id = k.optimizer_id
        WHERE k.steps > 0
    ) c
    GROUP BY c.rank, c.scheduler_id HAVING count(*) = count(c.n)
) h
WHERE h.early
  AND h.single
  AND h.first_total = 1
  AND h.first_n = 1
  AND h.times >= $times
  AND h.longest = h.shortest
  AND h.longest >= 2
  AND h.times * h.longest = h.optimizer_steps
  AND regexp_matches(h.calls, '^[^sbf]*l') AND (SELECT by_itself FROM script_ended)
ORDER BY step, rank, optimizer_id
