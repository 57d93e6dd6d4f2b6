/*
code = "OP007"
name = "zero-lr"
severity = "error"
phase = "optimizer"
signal = "lr"
message = "From step {step} on the learning rate of optimizer {optimizer_id} is {value} for {steps_} steps ({until_}). The weights do not learn."
fix = "Check the schedule's length and end value, and what sets the learning rate at step {step}."
seeks = ["param_groups: lr <= 0"]
explains = ["nothing-learnt", "lr-too-low", "stale-metric"]
[say.until_]
to_the_end = "to the end of the run"
rises_again = "then it rises again"
negative = "negative"
[params.least]
value = 5
unit = "steps"
doc = "Steps in a row at rate zero; a negative rate counts at once."
source = "convention: of this project, the first step of a warm-up from zero"
[params.tenth]
value = 10
unit = "of the run"
doc = "Part of the run, one over this, from which it counts in the middle."
source = "convention: of this project, a tenth"
[params.twentieth]
value = 20
unit = "of the run"
doc = "The same at the end."
source = "convention: of this project, a twentieth"
[params.fiftieth]
value = 50
unit = "of the run"
doc = "The same at the end, for advice: the schedule is shorter than the run."
source = "convention: of this project, a fiftieth, far more than the last step"
[needs]
tables = ["param_groups"]
columns = ["param_groups.lr"]
steps = 6
[doc]
what = "Every parameter group of an optimizer has a learning rate of zero for steps in a row. It lasts to the end of the run, or the rate had been above zero before. Less than a twentieth of the run at its end is advice. Or the rate is negative."
why = "A step of length zero learns nothing; a negative one climbs."
not_this = "A warm-up whose first few steps are at zero, an optimizer that waits while another one works. A schedule whose very last steps reach zero. A single group that is frozen by a rate of zero."
source = "Arithmetic: lr times anything is zero."
*/
WITH rates AS (
    SELECT rank, optimizer_id, step, max(lr) AS lr, min(lr) AS low,
        row_number() OVER (PARTITION BY rank, optimizer_id ORDER BY step) AS n
    FROM param_groups WHERE lr IS NOT NULL GROUP BY rank, optimizer_id, step
), runs AS (
    SELECT *, n - row_number() OVER (PARTITION BY rank, optimizer_id, lr = 0 ORDER BY step) AS island,
        count(*) OVER (PARTITION BY rank, optimizer_id) AS total,
        max(step) OVER (PARTITION BY rank, optimizer_id) + 1 AS length
    FROM rates
), zeros AS (
    SELECT rank, optimizer_id, island, min(step) AS step, max(n) AS last, min(n) AS first, count(*) AS steps_,
        any_value(total) AS total, (max(step) + 1 - min(step)) / any_value(length) AS part
    FROM runs WHERE lr = 0 GROUP BY ALL
)
SELECT rank, step, optimizer_id, 0.0 AS value, steps_,
    CASE WHEN last = total THEN 'to_the_end' ELSE 'rises_again' END AS until_,
    CASE WHEN first > 1 AND last = total AND part < 1 / $twentieth THEN 'warning' ELSE 'error' END AS severity
FROM zeros
-- from the start it is a warm-up or a stage of its own unless nothing ever follows, or nothing at all learns
-- meanwhile; two steps at the end are where a schedule ends
WHERE steps_ >= $least AND (first > 1 OR last = total OR (steps_ >= total / $tenth AND NOT EXISTS (
        SELECT 1 FROM rates r WHERE r.rank = zeros.rank AND r.lr > 0 AND r.step < (
            SELECT min(a.step)
            FROM rates a
            WHERE a.rank = zeros.rank AND a.optimizer_id = zeros.optimizer_id AND a.lr > 0))))
                AND (first = 1 OR last < total OR part >= 1 / $fiftieth)
UNION ALL BY NAME
SELECT rank, min(step) AS step, optimizer_id, arg_min(low, step) AS value, count(*) AS steps_,
    'negative' AS until_, 'error' AS severity
FROM rates WHERE low < 0 GROUP BY rank, optimizer_id
ORDER BY step, rank, optimizer_id
