/*
code = "OP010"
name = "scheduler-before-optimizer"
severity = "error"
phase = "optimizer"
signal = "calls"
message = "{scheduler} is stepped between backward and optimizer.step ({value}: b backward, l scheduler, s optimizer): the first learning rate of the schedule is never used."
fix = "Call optimizer.step() first, then scheduler.step()."
[needs]
tables = ["schedulers", "steps"]
columns = ["steps.calls", "schedulers.before_optimizer"]
[doc]
what = "A scheduler that steps after backward and before the optimizer's step, from the first step on."
why = "Every step uses the rate meant for the next; the first value of the schedule is skipped."
not_this = "A first optimizer step that a GradScaler left out, catching up on resume."
source = "Order of calls; torch has asked for the other order since 1.1."
*/
SELECT s.rank, s.step, s.calls AS value, c.scheduler, s.optimizer_id
FROM steps s JOIN (SELECT DISTINCT rank, optimizer_id, scheduler FROM schedulers WHERE before_optimizer) c
    ON c.rank = s.rank AND c.optimizer_id = s.optimizer_id
WHERE s.stepped AND regexp_matches(s.calls, 'b[^sbf]*l[^sbf]*s')
ORDER BY s.step, s.rank, s.optimizer_id
