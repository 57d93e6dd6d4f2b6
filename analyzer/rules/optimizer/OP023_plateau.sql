/*
code = "OP023"
name = "plateau"
severity = "warning"
phase = "step"
signal = "loss"
message = "From step {step} on the loss stands still: {value} over the last {steps_} steps, {before} before, while the learning rate is {lr} and an update still moves the weights by {ratio} of their norm."
fix = "Try a learning rate ten times lower, then higher; if neither helps, the model is too small or the inputs do not say more."
explains = []
[params.steps]
value = 100
unit = "steps"
doc = "Steps on end without progress."
[params.part]
value = 0.5
doc = "Share of the run that they are."
[params.ratio]
value = 1e-5
doc = "Least update ratio: less is a learning rate that is too low."
[needs]
tables = ["steps", "param_groups"]
columns = ["steps.loss", "param_groups.update_norm"]
steps = 200
[doc]
what = "For at least half of the run and a hundred steps the loss has not left the scatter of its neighbours, after it had fallen or never having fallen."
why = "Time that buys nothing."
not_this = "Losses of adversaries and policies, a loss near zero, a schedule that has come to its end, small progress that adds up."
source = "Medians of four quarters of the window against their own scatter."
*/
WITH course AS (
    SELECT *, count(*) OVER (PARTITION BY rank, optimizer_id) AS total FROM optimizer_series WHERE isfinite(loss) AND optimizers <= 1
), window_ AS (
    SELECT *, ntile(4) OVER (PARTITION BY rank, optimizer_id ORDER BY n) AS quarter FROM course
    WHERE total >= 2 * $steps AND n >= total - greatest($steps, $part * total)
), quarters AS (
    SELECT rank, optimizer_id, quarter, median(loss) AS m, sigma_of(mad(loss)) / sqrt(count(*)) AS error, min(step) AS step, count(*) AS n, median(lr) AS lr, median(update_ratio) AS ratio
    FROM window_ GROUP BY rank, optimizer_id, quarter
), judged AS (
    SELECT rank, optimizer_id, min(step) AS step, avg(m) AS value, max(m) - min(m) AS spread, avg(error) AS error, sum(n)::BIGINT AS steps_, min(lr) AS lr, min(ratio) AS ratio
    FROM quarters GROUP BY rank, optimizer_id HAVING count(*) = 4
), start_ AS (
    SELECT c.rank, c.optimizer_id, median(c.loss) AS before FROM course c JOIN judged j ON j.rank = c.rank AND j.optimizer_id = c.optimizer_id
    WHERE c.n < 10 GROUP BY c.rank, c.optimizer_id
)
SELECT j.rank, j.step, j.value, s.before, j.steps_, j.lr, j.ratio
FROM judged j JOIN start_ s ON s.rank = j.rank AND s.optimizer_id = j.optimizer_id
WHERE j.spread <= 6 * j.error AND j.value > 0.3 * s.before
  -- where it has never fallen, batches may differ by more
  AND j.spread < CASE WHEN j.value > 0.95 * s.before THEN 0.1 ELSE 0.02 END * abs(j.value) AND j.value > 0 AND j.lr > 0 AND j.ratio > $ratio
ORDER BY j.step, j.rank
