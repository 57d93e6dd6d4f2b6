/*
code = "OP012"
name = "optimizer-state-lost"
severity = "error"
phase = "optimizer"
signal = "state_step"
message = "At step {step} the step counter of {optimizer} is {value} after {before} in the step before: its moments were lost, {how_}."
fix = "Keep one optimizer for the run; on resume call optimizer.load_state_dict before training goes on."
explains = ["loss-spike", "divergence", "exploding-gradients", "lr-too-high", "shuffled-labels"]
[needs]
tables = ["param_groups"]
columns = ["param_groups.state_step"]
steps = 3
[doc]
what = "The step counter in the optimizer's state falls back to one; or a new optimizer of the same class, size and learning rate takes the place of another and starts at one."
why = "Adam's moments start from zero: the first steps are as long as at the start of the run."
not_this = "A second optimizer for other parameters, a resumed run whose state was loaded (its counter falls by as much as had been done since the checkpoint), another optimizer for another stage or another model, as the next fold has."
source = "Counting."
*/
WITH counters AS (
    SELECT rank, step, optimizer_id, any_value(optimizer) AS optimizer, max(state_step) AS state_step, sum(numel) AS numel, max(lr) AS lr
    FROM param_groups GROUP BY rank, step, optimizer_id
), within_ AS (
    SELECT rank, step, optimizer, state_step AS value, lag(state_step) OVER (PARTITION BY rank, optimizer_id ORDER BY step) AS before, 'in the same optimizer' AS how_, optimizer_id
    FROM counters WHERE state_step IS NOT NULL
), ends AS (
    SELECT rank, optimizer_id, any_value(optimizer) AS optimizer, min(step) AS first, max(step) AS last, arg_min(state_step, step) AS first_count, arg_max(state_step, step) AS last_count,
        any_value(numel) AS numel, arg_min(lr, step) AS first_lr, arg_max(lr, step) AS last_lr
    FROM counters WHERE state_step IS NOT NULL GROUP BY rank, optimizer_id
)
SELECT rank, step, optimizer, value, before, how_, optimizer_id FROM within_ WHERE value <= 1 AND before >= 2
UNION ALL BY NAME
SELECT n.rank, n.first AS step, n.optimizer, n.first_count AS value, o.last_count AS before, 'with a new optimizer' AS how_, n.optimizer_id
FROM ends n JOIN ends o ON o.rank = n.rank AND o.optimizer_id < n.optimizer_id AND o.last = n.first - 1
WHERE n.first > 0 AND n.first_count <= 1 AND o.last_count >= 3 AND n.optimizer = o.optimizer AND n.numel = o.numel AND n.first_lr BETWEEN 0.5 * o.last_lr AND 2 * o.last_lr
  AND NOT EXISTS (FROM handovers h WHERE h.rank = n.rank AND h.optimizer_id = n.optimizer_id AND h.fresh)
ORDER BY step, rank
