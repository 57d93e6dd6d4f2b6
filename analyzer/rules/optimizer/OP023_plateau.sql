/*
code = "OP023"
name = "plateau"
severity = "warning"
is = ["nothing-learnt"]
phase = "step"
signal = "loss"
message = "From step {step} on the loss stands still: {value} over the last {steps_} steps, {before} before{while_}{rate_}."
fix = "Try a learning rate ten times lower, then higher. If neither helps, the model is too small or the inputs do not say more."
explains = []
[say.while_]
in_all_rows = ", from the first row to the last"
[say.rate_]
updates_still_move = ", while the learning rate is {lr} and an update still moves the weights by {ratio} of their norm"
rate_goes_on = ", while the learning rate goes from {lr} to {lr_last}"
[params.steps]
value = 100
unit = "steps"
doc = "Steps in a row without progress."
source = "convention: of this project, fewer are a pause"
[params.part]
value = 0.5
doc = "Share of the run that they are."
source = "convention: of this project, half of the run"
[params.ratio]
value = 1e-5
doc = "Least update ratio: less is a learning rate that is too low."
source = "convention: a hundredth of the ratio of 1e-3 that is the usual rule of thumb (Karpathy, CS231n notes, ratio of updates to weights)"
[params.rows]
value = 20
unit = "rows"
doc = "Rows that a log which was imported must hold; such a log knows no updates."
source = "convention: of this project, fewer rows have no quarters to compare"
[params.quiet]
value = 0.05
doc = "Scatter of the loss of such a log over its level: only one that hardly moves is called still."
source = "convention: of this project, a twentieth of its level"
[params.parts]
value = 4
unit = "parts"
doc = "Parts of a stretch whose medians are compared."
source = "arithmetic: quarters"
[params.start]
value = 10
unit = "steps"
doc = "First steps, from which it is told where the loss began."
source = "convention: of this project, losses of single steps scatter"
[params.progress]
value = 0.95
unit = "of the first"
doc = "Fall of an evaluation that is progress."
source = "convention: of this project, less is scatter"
[params.few]
value = 3
unit = "losses"
doc = "Losses from which a level is told, at least."
source = "convention: of this project, fewer scatter too much"
[params.tenth]
value = 0.1
unit = "of the log"
doc = "Part of a log that is its beginning."
source = "convention: of this project, a tenth"
[params.errors]
value = 6
unit = "standard errors"
doc = "Spread of the medians of the quarters that is chance."
source = "convention: of this project, twice the three of the usual rule"
[params.gone]
value = 0.3
unit = "of the first"
doc = "Loss below which most of it was learnt."
source = "convention: of this project, less than a third is left"
[params.nothing]
value = 0.95
unit = "of the first"
doc = "Loss above which nothing was learnt."
source = "convention: of this project, a twentieth is scatter"
[params.wide]
value = 0.1
unit = "of the loss"
doc = "Spread of the medians up to which such a loss stands still."
source = "convention: of this project, a tenth"
[params.narrow]
value = 0.02
unit = "of the loss"
doc = "The same, where something was learnt before."
source = "convention: of this project, a fiftieth"
[params.floor]
value = 0.01
unit = "of the loss"
doc = "Least spread that counts."
source = "convention: of this project, a hundredth"
[params.most]
value = 0.05
unit = "of the loss"
doc = "Spread of the medians at most."
source = "convention: of this project, a twentieth"
[params.still]
value = 0.97
unit = "of the first"
doc = "Loss at the end over that at the start, above which nothing was learnt."
source = "convention: of this project, three hundredths are scatter"
[needs]
tables = ["steps"]
columns = ["steps.loss"]
steps = 200
[doc]
what = "For at least half the run and a hundred steps the loss has not left the scatter of its neighbours. It had fallen before, or never fell. In an imported log this must hold from the first row to the last."
why = "Time that buys nothing."
not_this = "Losses of adversaries and policies, a log whose evaluation loss falls, a loss near zero. A schedule that has come to its end, small progress that adds up."
source = "Medians of four quarters of the window against their own scatter."
*/
WITH evaluated AS (
    SELECT rank, source, name, arg_min(value, step) AS first_, arg_max(value, step) AS last_ FROM metrics
    WHERE isfinite(value)
      AND regexp_matches(lower(name),
          '(^|[^a-z])(val|valid|validation|eval|evaluation|dev|test|held.?out)([^a-z]|$)')
      AND contains(lower(name), 'loss')
    GROUP BY rank, source, name
), course AS (
    SELECT *, count(*) OVER (PARTITION BY rank, optimizer_id) AS total
    FROM optimizer_series
    WHERE isfinite(loss) AND optimizers <= 1
), window_ AS (
    SELECT *, ntile($parts) OVER (PARTITION BY rank, optimizer_id ORDER BY n) AS quarter FROM course
    WHERE total >= 2 * $steps AND n >= total - greatest($steps, $part * total)
), quarters AS (
    SELECT rank, optimizer_id, quarter, median(loss) AS m, sigma_of(mad(loss)) / sqrt(count(*)) AS error,
        min(step) AS step, count(*) AS n, median(lr) AS lr, median(update_ratio) AS ratio
    FROM window_ GROUP BY rank, optimizer_id, quarter
), judged AS (
    SELECT rank, optimizer_id, min(step) AS step, avg(m) AS value, max(m) - min(m) AS spread,
        avg(error) AS error, sum(n)::BIGINT AS steps_, min(lr) AS lr, min(ratio) AS ratio
    FROM quarters GROUP BY rank, optimizer_id HAVING count(*) = $parts
), start_ AS (
    SELECT c.rank, c.optimizer_id, median(c.loss) AS before
    FROM course c
    JOIN judged j ON j.rank = c.rank AND j.optimizer_id = c.optimizer_id
    WHERE c.n < $start GROUP BY c.rank, c.optimizer_id
), logged AS (
    -- a log that was imported knows no updates, and holds one step in many: its rows are judged as they are
    SELECT *, ntile($parts) OVER (PARTITION BY rank ORDER BY n) AS quarter FROM course
    WHERE total >= $rows
      AND (SELECT options LIKE '%"imported"%' FROM runs)
      AND NOT EXISTS (FROM param_groups WHERE update_norm IS NOT NULL)
      -- neither the loss of a policy nor that of a model whose evaluation loss falls
      AND NOT EXISTS (FROM metrics m
          WHERE regexp_matches(lower(m.name),
              '(^|[^a-z])(return|reward|rewards|episode|ep_rew_mean)([^a-z]|$)'))
      AND rank NOT IN (SELECT rank FROM evaluated WHERE last_ < $progress * first_)
), log_facts AS (
    SELECT rank, median(loss) FILTER (n < greatest($few, $tenth * total)) AS before,
        sigma_of(mad(loss)) AS scatter,
        max(step) - min(step) + 1 AS covered, max(lr) AS lr_high, arg_max(lr, step) AS lr_last
    FROM logged GROUP BY rank HAVING covered >= 2 * $steps
), log_quarters AS (
    SELECT rank, quarter, median(loss) AS m, sigma_of(mad(loss)) / sqrt(count(*)) AS error, min(step) AS step
    FROM logged
    GROUP BY rank, quarter
)
SELECT j.rank, j.step, j.value, s.before, j.steps_, j.lr, j.ratio, 'updates_still_move' AS rate_
FROM judged j JOIN start_ s ON s.rank = j.rank AND s.optimizer_id = j.optimizer_id
WHERE j.spread <= $errors * j.error AND j.value > $gone * s.before
  -- where it has never fallen, batches may differ by more
  AND j.spread < CASE WHEN j.value > $nothing * s.before THEN $wide ELSE $narrow END * abs(j.value)
    AND j.value > 0
    AND j.lr > 0
    AND j.ratio > $ratio
UNION ALL BY NAME
SELECT q.rank, min(q.step) AS step, avg(q.m) AS value, any_value(f.before) AS before,
    max(f.covered) AS steps_, any_value(f.lr_high) AS lr, any_value(f.lr_last) AS lr_last,
    'in_all_rows' AS while_, CASE WHEN any_value(f.lr_high) IS NOT NULL THEN 'rate_goes_on' END AS rate_
FROM log_quarters q JOIN log_facts f ON f.rank = q.rank
GROUP BY q.rank
HAVING max(q.m) - min(q.m) <= greatest($errors * avg(q.error), $floor * avg(q.m))
    AND max(q.m) - min(q.m) < $most * avg(q.m)
    AND arg_max(q.m, q.quarter) > $still * any_value(f.before)
    AND any_value(f.scatter) < $quiet * avg(q.m) AND avg(q.m) > 0 AND coalesce(any_value(f.lr_high) > 0, true)
ORDER BY step, rank
