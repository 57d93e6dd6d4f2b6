/*
code = "OP031"
name = "warmup-restarts-each-epoch"
severity = "error"
phase = "optimizer"
signal = "lr"
message = "The learning rate rises within every epoch. Where the next one begins, it falls back from {value} to its first value {first}. It does so at step {step} and in each of the first {epochs} epochs. The warm-up counts the steps of the epoch, not those of the training."
fix = "Count optimizer steps over all epochs for the warm-up (epoch * len(loader) + i), or step a scheduler that counts by itself."
seeks = ["steps: epoch >= $epochs - 1"]
explains = ["plateau", "underfit", "lr-spike", "lr-too-low"]
[params.epochs]
value = 3
unit = "epochs"
doc = "Epochs in a row, with the first, that rise from the first rate."
source = "convention: of this project, two may be a stage that begins anew"
[params.steps]
value = 5
unit = "steps"
doc = "Watched steps of an epoch."
source = "convention: of this project, fewer do not show a rise"
[params.fall]
value = 2
unit = "times"
doc = "Rate at the end of an epoch over the rate at the beginning of the next."
source = "arithmetic: half of the rate is lost"
[params.same]
value = 0.01
unit = "relative"
doc = "How close the rate of an epoch's first step comes to that of the run's first."
source = "convention: of this project, a hundredth"
[needs]
tables = ["param_groups", "steps"]
columns = ["steps.epoch", "param_groups.lr"]
[doc]
what = "In the first epochs of a loader the learning rate only rises. At the first step of the next one it is back at the value of the run's first step."
why = "The training never gets past its warm-up. Each epoch begins with steps that hardly move the weights."
not_this = "Schedules that fall within an epoch, such as cosine with restarts. Cycles that are longer or shorter than an epoch. One or two stages that begin anew."
source = "The run's own rates and epochs."
*/
WITH rates AS (
    SELECT g.rank, g.optimizer_id, g.group_id, g.step, g.lr, s.epoch
    FROM param_groups g
    JOIN (SELECT rank, step, max(epoch) AS epoch FROM steps GROUP BY rank, step) s
        ON s.rank = g.rank AND s.step = g.step
    WHERE g.lr > 0 AND s.epoch IS NOT NULL
), rows_ AS (
    SELECT *, lag(lr) OVER w AS before, lag(epoch) OVER w AS epoch_before,
        first_value(lr) OVER w AS first
    FROM rates WINDOW w AS (PARTITION BY rank, optimizer_id, group_id ORDER BY step)
), epochs AS (
    SELECT rank, optimizer_id, group_id, epoch, count(*) AS steps, any_value(first) AS first,
        arg_max(lr, step) AS last, arg_min(lr, step) AS begins, min(step) AS step,
        arg_min(before, step) AS before,
        bool_and(lr >= before OR epoch <> epoch_before OR before IS NULL) AS rises
    FROM rows_ GROUP BY rank, optimizer_id, group_id, epoch
), judged AS (
    SELECT *, rises AND steps >= $steps AND (epoch = 0
        OR abs(begins - first) <= $same * first AND before >= $fall * begins) AS again
    FROM epochs
), ended AS (
    -- the first epoch that does not begin so: the warm-up may be over by then
    SELECT rank, optimizer_id, group_id, min(epoch) FILTER (NOT again) AS epoch
    FROM judged GROUP BY rank, optimizer_id, group_id
)
SELECT j.rank, min(j.step) FILTER (j.epoch > 0) AS step, j.optimizer_id, any_value(j.first) AS first,
    arg_min(j.before, j.step) FILTER (j.epoch > 0) AS value, count(*) AS epochs
FROM judged j
JOIN ended e ON e.rank = j.rank AND e.optimizer_id = j.optimizer_id AND e.group_id = j.group_id
WHERE j.epoch < coalesce(e.epoch, j.epoch + 1)
GROUP BY j.rank, j.optimizer_id, j.group_id
HAVING count(*) >= $epochs AND min(j.epoch) = 0
QUALIFY row_number() OVER (PARTITION BY j.rank, j.optimizer_id ORDER BY j.group_id) = 1
ORDER BY step, j.rank, j.optimizer_id
