/*
code = "OP008"
name = "scheduler-stepped-too-often"
severity = "error"
phase = "optimizer"
signal = "scheduler_steps"
message = "From step {step} on {how_}: the schedule runs {value} times as fast as the training."
fix = "Step the scheduler once after each optimizer.step(), not once per microbatch or in two places. A schedule whose length is counted in epochs is stepped once an epoch."
seeks = [
    "schedulers: steps >= 2 AND scheduler NOT LIKE '%Plateau%' OR CASE WHEN scheduler IN ('CosineAnnealingLR', 'PolynomialLR') THEN total_steps >= 4 WHEN scheduler IN ('ExponentialLR', 'StepLR', 'MultiStepLR', 'MultiplicativeLR') THEN total_steps >= $nearly_all * ($batches - 1) ELSE scheduler = 'OneCycleLR' END",
]
explains = ["scheduler-before-optimizer", "zero-lr", "lr-too-low", "plateau", "python-exception"]
[say.how_]
several_times_a_step = "{scheduler} is stepped {value} times for every optimizer step"
as_long_as_the_epochs = "{scheduler} is as long as the training has epochs ({length_}), and it was stepped {total} times"
as_long_as_the_evaluations = "{scheduler} is as long as the training has evaluations ({length_}), and it was stepped {total} times"
decays_by_batch = "{scheduler} is stepped for every batch ({total} times) and has divided the learning rate by {divided:.3g} halfway through the run"
used_up_in_the_first_epoch = "{scheduler} is stepped for every batch, and its {total} steps are used up in an epoch of {value} batches"
[params.least]
value = 3
unit = "steps"
doc = "Optimizer steps in a row with more than one scheduler step."
source = "convention: of this project, one such step may be the last of an epoch"
[params.batches]
value = 20
unit = "steps"
doc = "Steps after which a decay may be judged."
source = "convention: of this project, fewer are a short test"
[params.gone]
value = 1e-4
doc = "Learning rate halfway over the first, below which the second half changes nothing."
source = "arithmetic: five thousand steps at a ten-thousandth of the rate move the weights by less than one of the first"
[params.epoch]
value = 3
unit = "steps"
doc = "Steps of an epoch, at least."
source = "convention: of this project, shorter epochs are a test"
[params.most]
value = 0.8
unit = "of the steps"
doc = "Share of the steps in which the scheduler was stepped."
source = "convention: of this project, one of five may not be seen"
[params.nearly_all]
value = 0.9
unit = "of the steps"
doc = "The same for a decay."
source = "convention: of this project, one of ten may not be seen"
[needs]
tables = ["schedulers"]
columns = ["schedulers.steps"]
steps = 3
[doc]
what = "The script calls a scheduler's step() two or more times for each optimizer step. Or a cosine or polynomial schedule has the number of epochs as its length. It is stepped for every batch far beyond its end. Where nothing tells epochs, evaluations at equal distances count. Or a stepwise or exponential decay is stepped for every batch. It has taken the rate below a ten-thousandth by the middle of the run. Or OneCycleLR ends the run because its steps are used up, in the first epoch and before the half of it."
why = "The learning rate reaches its end after a fraction of the training."
not_this = "A scheduler stepped once. One whose length is counted in those steps and that is not beyond it when the run has ended. One inside another scheduler, catching up on resume before the first step. Schedulers on a metric, as many steps as there are ranks (accelerate does that on purpose)."
source = "Counting; no threshold but persistence."
*/
-- shared
WITH rows_ AS (
    SELECT *, row_number() OVER (PARTITION BY rank, scheduler_id ORDER BY step) AS n
    FROM schedulers
    WHERE scheduler NOT LIKE '%Plateau%'
), epochs AS (
    SELECT rank, max(epoch) + 1 AS epochs, count(DISTINCT step) / (max(epoch) + 1) AS per_epoch,
        'as_long_as_the_epochs' AS how_
    FROM steps
    WHERE epoch IS NOT NULL
    GROUP BY rank
    UNION ALL
    -- without a loader nobody counts epochs, but many a script evaluates once in each: as many evaluations,
    -- at equal distances
    SELECT rank, count(*), avg(gap), 'as_long_as_the_evaluations' FROM (
        SELECT rank, step, step - lag(step, 1, 0) OVER (PARTITION BY rank ORDER BY step) AS gap FROM steps s
        WHERE eval_forwards > 0
          AND step > 0
          AND NOT EXISTS (FROM steps e WHERE e.rank = s.rank AND e.epoch IS NOT NULL))
    GROUP BY rank HAVING max(gap) - min(gap) <= 1
)
-- detector: several_times_a_step
WITH runs AS (
    SELECT *,
        n - row_number() OVER (PARTITION BY rank, scheduler_id, coalesce(steps, 0) >= 2 ORDER BY n) AS island
    FROM rows_
), often AS (
    SELECT rank, scheduler_id, scheduler, optimizer_id, island, min(step) AS step, count(*) AS rows_,
        median(steps) AS times, min(n) AS n
    FROM runs WHERE steps >= 2 GROUP BY ALL
), planned AS (
    -- a length that was counted in those steps is reached with the last of them
    SELECT rank, scheduler_id FROM schedulers
    WHERE scheduler IN ('OneCycleLR', 'CosineAnnealingLR', 'PolynomialLR', 'LinearLR')
      AND json_valid(settings)
      AND EXISTS (FROM script_ended WHERE by_itself)
    GROUP BY rank, scheduler_id
    HAVING max(total_steps) <= 1 + any_value(coalesce(json_extract(settings, '$.total_steps'),
        json_extract(settings, '$.T_max'), json_extract(settings, '$.total_iters'))::BIGINT)
)
-- step() comes after the optimizer's, so what a row counts happened after the row before
SELECT rank, greatest(step - 1, 0) AS step, times::BIGINT AS value, scheduler, optimizer_id, rows_ AS steps_,
    scheduler_id, 'several_times_a_step' AS how_
FROM often
WHERE rows_ >= $least
  AND (times <> (SELECT max(world_size) FROM ranks WHERE world_size > 1)
      OR (SELECT coalesce(max(world_size), 1) FROM ranks) = 1)
   AND (rank, scheduler_id) NOT IN (FROM planned)
-- detector: as_long_as_the_epochs
WITH lengths AS (
    SELECT rank, scheduler_id, any_value(scheduler) AS scheduler, any_value(optimizer_id) AS optimizer_id,
        min(step) AS step, max(total_steps) AS total, count(*) AS rows_,
        any_value(coalesce(json_extract(settings, '$.T_max'),
            json_extract(settings, '$.total_iters'))::BIGINT) AS length_
    FROM schedulers
    WHERE scheduler IN ('CosineAnnealingLR', 'PolynomialLR') AND json_valid(settings)
    GROUP BY rank, scheduler_id
)
SELECT l.rank, l.step, round(e.per_epoch)::BIGINT AS value, l.scheduler, l.optimizer_id, l.rows_ AS steps_,
    l.scheduler_id, l.length_, l.total, e.how_
FROM lengths l JOIN epochs e ON e.rank = l.rank
WHERE l.length_ = e.epochs
  AND e.epochs >= 2
  AND e.per_epoch >= $epoch
  AND l.total >= 2 * l.length_
  AND l.total >= $most * l.rows_
-- detector: decays_by_batch
WITH decays AS (
    -- by the counts of the scheduler and by step numbers: not every step has a row
    SELECT s.rank, s.scheduler_id, any_value(s.scheduler) AS scheduler,
        any_value(s.optimizer_id) AS optimizer_id, min(s.step) AS step,
            max(s.step) - min(s.step) + 1 AS rows_,
        max(s.total_steps) AS total,
        arg_min(s.lr, s.step) AS lr_first, max(s.lr) FILTER (2 * s.step >= s.last) AS lr_half
    FROM (SELECT *, max(step) OVER (PARTITION BY rank, scheduler_id) AS last FROM schedulers) s
    WHERE s.scheduler IN ('ExponentialLR', 'StepLR', 'MultiStepLR', 'MultiplicativeLR') GROUP BY ALL
)
-- a decay by epochs, stepped for every batch: half of the training is done at a rate of nothing
SELECT d.rank, d.step, coalesce(round(e.per_epoch)::BIGINT, d.total) AS value, d.scheduler, d.optimizer_id,
    d.rows_ AS steps_, d.scheduler_id, d.total, d.lr_first / d.lr_half AS divided,
    'decays_by_batch' AS how_
FROM decays d LEFT JOIN epochs e ON e.rank = d.rank
WHERE d.rows_ >= $batches
  AND d.lr_half > 0
  AND d.lr_half < $gone * d.lr_first
  AND coalesce(e.per_epoch >= $epoch, true)
  AND d.total >= $nearly_all * (d.rows_ - 1)
-- detector: used_up_in_the_first_epoch
-- a length that is over before the first half of the first epoch counts something else than batches
SELECT s.rank, min(s.step) AS step, any_value(b.batches) AS value, any_value(s.scheduler) AS scheduler,
    any_value(s.optimizer_id) AS optimizer_id, count(*) AS steps_, s.scheduler_id,
    any_value(x.total) AS total, 'used_up_in_the_first_epoch' AS how_
FROM (SELECT coalesce(e.rank, 0) AS rank, e.step,
        regexp_extract(e.exception_message, 'total steps is (\d+)', 1)::BIGINT AS total
    FROM exits e
    JOIN known_exceptions k ON k.known = 'onecycle-end'
        AND regexp_matches(e.exception_message, k.pattern)) x
JOIN schedulers s ON s.rank = x.rank AND s.scheduler = 'OneCycleLR'
JOIN (SELECT rank, max(loader_batches) AS batches FROM batches WHERE phase = 'data' GROUP BY rank) b
    ON b.rank = x.rank AND b.batches >= 2 * x.total
WHERE (SELECT max(t.epoch) FROM steps t WHERE t.rank = x.rank) = 0
GROUP BY s.rank, s.scheduler_id
HAVING max(s.steps) <= 1
-- together
ORDER BY step, rank, scheduler_id
