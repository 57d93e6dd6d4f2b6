/*
code = "DA025"
name = "unnormalised-target"
severity = "error"
phase = "loss"
signal = "mean"
message = "The targets are near {target:.3g}, the outputs near {output:.3g} in step {looked}. The outputs have gone {percent:.2g} % of the way to the targets' mean. After {steps} steps the loss is {kept} % of its first. A constant would have a smaller loss: targets differ from their mean by {spread:.3g}, outputs from it by {gap:.3g}."
fix = "Train on (target - mean) / standard deviation of the training data, and undo it where a prediction is used. Or begin with the last layer's bias at the targets' mean."
seeks = [
    "batches: role = 'target' AND regexp_matches(loss_op, '^(MseLoss|L1Loss|SmoothL1Loss|HuberLoss)')",
    """tensor_stats: phase <> 'eval' AND numel > nan_count + inf_count \
        AND abs(sum) >= $large / 2 * (numel - nan_count - inf_count)""",
]
explains = ["nothing-learnt", "lr-too-low", "exploding-gradients", "loss-spike", "shuffled-labels"]
[params.large]
value = 100
doc = "Mean of the targets from which they count as large: a new network's outputs are near 1 (convention of its initialisation)."
source = "convention: of this project, two orders of magnitude above the outputs of a new network, which are near 1"
[params.way]
value = 0.1
doc = "Share of the way from the first outputs to the targets' mean that has been gone at most."
source = "convention: of this project, a tenth of the way is hardly a beginning"
[params.kept]
value = 0.8
doc = "Share of the first loss that is left at least: of a squared error, what is left where a tenth of the way is gone."
source = "arithmetic: a squared error keeps 0.9 squared, 81 %, where a tenth of the way is gone"
[params.steps]
value = 100
unit = "steps"
doc = "Steps of the run: before that a training has just begun."
source = "convention: of this project, before that a training has just begun"
[params.looks]
value = 5
unit = "looks"
doc = "Steps in which both were measured."
source = "convention: of this project, fewer do not show a way"
[params.few]
value = 8
unit = "losses"
doc = "Losses from which it is told where the loss began, and where it ended."
source = "convention: of this project, losses of single steps scatter"
[needs]
tables = ["batches", "tensor_stats"]
columns = ["batches.loss_op"]
steps = 5
[doc]
what = "A regression has run for 100 steps or more. The outputs have gone a tenth or less of the way to the targets' mean. The targets are closer to their own mean than the outputs are."
why = "Weights move by about the learning rate a step. Outputs that begin near 1 cannot reach hundreds of thousands in any training. Until then only their size is learnt."
not_this = "Targets with a mean below 100, outputs that are getting there. Targets that scatter so widely that their mean is nowhere near, losses that are no regression."
source = "Arithmetic: the loss of a constant is the variance of the targets."
*/
WITH fields AS (
    SELECT rank, any_value(tensor_id) AS tensor_id
    FROM batches
    WHERE role = 'target'
      AND phase <> 'eval'
      AND regexp_matches(loss_op, '^(MseLoss|L1Loss|SmoothL1Loss|HuberLoss)')
    GROUP BY rank
    HAVING count(DISTINCT tensor_id) = 1
), targets AS (
    SELECT s.rank, s.step, avg(s.mean) AS mean, avg(s.std) AS std
    FROM stats s JOIN fields f USING (rank, tensor_id)
    WHERE s.phase <> 'eval' AND isfinite(s.mean) AND isfinite(s.std)
    GROUP BY s.rank, s.step
), outputs AS (
    SELECT rank, step, avg(mean) AS mean
    FROM stats
    WHERE kind = 'output' AND phase <> 'eval' AND isfinite(mean)
    GROUP BY rank, step
    HAVING count(DISTINCT tensor_id) = 1
), wanted AS (
    SELECT rank, avg(mean) AS mean, sqrt(avg(std * std) + var_pop(mean)) AS spread FROM targets GROUP BY rank
), ways AS (
    SELECT o.rank, count(*) AS looks, min(o.step) AS step,
        max(o.step) AS looked, arg_max(o.mean, o.step) AS output,
            arg_min(abs(w.mean - o.mean), o.step) AS first_gap,
        arg_max(abs(w.mean - o.mean), o.step) AS gap, min(abs(w.mean - o.mean)) AS least,
        any_value(w.mean) AS target, any_value(w.spread) AS spread
    FROM outputs o
    JOIN targets t ON t.rank = o.rank AND t.step = o.step
    JOIN wanted w ON w.rank = o.rank
    GROUP BY o.rank
), losses AS (
    SELECT rank, step, loss FROM optimizer_series
    UNION ALL BY NAME SELECT rank, step, loss FROM unwatched_steps
), course AS (
    SELECT rank, max(step) AS last_step, median(loss) FILTER (n <= $few) AS first,
        median(loss) FILTER (left_ <= $few) AS last
    FROM (
        SELECT rank, step, loss, row_number() OVER (PARTITION BY rank ORDER BY step) AS n,
            row_number() OVER (PARTITION BY rank ORDER BY step DESC) AS left_
        FROM losses WHERE isfinite(loss))
    GROUP BY rank
)
SELECT w.rank, w.step, w.looked, c.last_step + 1 - w.step AS steps, w.target, w.output, w.spread, w.gap,
    w.gap AS value, percent_of_whole(c.last, c.first) AS kept,
    in_percent(greatest(0, (w.first_gap - w.gap) / w.first_gap)) AS percent
FROM ways w
JOIN course c USING (rank)
WHERE w.looks >= $looks AND abs(w.target) >= $large AND w.least > w.spread
  AND w.least >= (1 - $way) * w.first_gap
  AND c.last_step + 1 - w.step >= $steps
  AND c.last >= $kept * c.first
ORDER BY w.rank
