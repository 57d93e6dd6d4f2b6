/*
code = "OP025"
name = "underfit"
severity = "warning"
is = ["nothing-learnt"]
phase = "step"
signal = "loss"
message = "After {steps_} steps the training loss is {value}, {percent} % of its start, and {name} ({eval_}) is no better. The model fits neither, though its gradients are healthy."
fix = "Train longer or with a higher learning rate first; then a larger model, better inputs, less regularisation."
seeks = [
    "metrics: isfinite(value) AND contains(lower(name), 'loss') AND regexp_matches(lower(name), '(^|[^a-z])(val|valid|validation|eval|evaluation|dev|test|held.?out)([^a-z]|$)')",
]
explains = []
[params.share]
value = 0.8
doc = "Loss at the end over loss at the start."
source = "convention: of this project, a model that learns loses more than a fifth of its first loss in a whole run"
[params.near]
value = 0.1
doc = "Relative distance of the two losses."
source = "convention: of this project, a tenth of them"
[params.values]
value = 3
unit = "values"
doc = "Values of a metric of an evaluation."
source = "convention: of this project, fewer are a test"
[params.start]
value = 10
unit = "steps"
doc = "First losses, from which it is told where the loss began."
source = "convention: of this project, losses of single steps scatter"
[params.last]
value = 20
unit = "steps"
doc = "Last losses, from which it is told where it ended."
source = "convention: of this project, twice as many"
[params.steps]
value = 200
unit = "steps"
doc = "Steps of a run that should have learnt."
source = "convention: of this project, fewer are a test"
[params.worse]
value = 1.2
unit = "times"
doc = "Loss at the end over the first, above which it has diverged."
source = "convention: of this project, a fifth is scatter"
[params.moves]
value = 1e-6
doc = "Update over weights below which the learning rate is too low."
source = "arithmetic: the bound of lr-too-low"
[needs]
tables = ["metrics", "steps"]
columns = ["metrics.value", "steps.loss"]
steps = 200
[doc]
what = "Training and evaluation loss end high and close together."
why = "Where both are high nothing was learnt that could be overfitted."
not_this = "Losses of adversaries, runs of fewer than two hundred steps. Evaluation losses that the script neither logs nor reads with item()."
source = "The usual reading of learning curves."
*/
WITH named AS (
    SELECT rank, source, name, step, arg_max(value, time_ns) AS value FROM metrics
    WHERE isfinite(value)
      AND regexp_matches(lower(name),
          '(^|[^a-z])(val|valid|validation|eval|evaluation|dev|test|held.?out)([^a-z]|$)')
      AND contains(lower(name), 'loss')
    GROUP BY rank, source, name, step

), evaluated AS (
    SELECT rank, name, arg_max(value, step) AS eval_ FROM named GROUP BY rank, name HAVING count(*) >= $values
), course AS (
    SELECT rank, optimizer_id, median(loss) FILTER (n < $start) AS first_,
        median(loss) FILTER (n >= total - $last) AS value, max(total) AS steps_, median(norm) AS norm,
        median(update_ratio) AS ratio
    FROM (SELECT *, count(*) OVER (PARTITION BY rank, optimizer_id) AS total
        FROM optimizer_series
        WHERE isfinite(loss) AND optimizers <= 1)
    GROUP BY rank, optimizer_id
)
SELECT c.rank, 0 AS step, c.value, c.steps_, percent_of_whole(c.value, c.first_) AS percent, e.name, e.eval_
FROM course c JOIN evaluated e ON e.rank = c.rank
WHERE c.steps_ >= $steps
  AND c.first_ > 0
  AND c.value > $share * c.first_
  AND c.value < $worse * c.first_
  AND abs(e.eval_ - c.value) < $near * c.value
  AND c.norm > 0
  AND c.ratio > $moves
QUALIFY row_number() OVER (PARTITION BY c.rank ORDER BY e.name) = 1 ORDER BY c.rank
