/*
code = "OP029"
name = "scheduler-stepped-too-rarely"
severity = "error"
phase = "optimizer"
signal = "scheduler_steps"
message = "{scheduler} was stepped {times} times in {steps_} optimizer steps of optimizer {optimizer_id}, although {how_}. The learning rate at the end is {value}."
fix = "{remedy}"
seeks = [
    "schedulers: CASE WHEN json_valid(settings) THEN greatest(coalesce(json_extract(settings, '$.total_steps'), json_extract(settings, '$.T_max'), json_extract(settings, '$.total_iters'))::BIGINT, json_extract(settings, '$.planned')::BIGINT) >= $planned OR json_extract(settings, '$.warmup')::BIGINT >= $warm END",
]
explains = ["lr-too-low", "nothing-learnt"]
[say.how_]
warm_up_not_over = "its warm-up takes {warmup} steps"
schedule_is_longer = "its schedule has {length_} steps"
planned_in_passes = "its schedule has {length_} steps, one for each of the {factor} backward passes of a step"
planned_for_all_ranks = "its schedule has {length_} steps, as many as the {ranks} ranks make together"
planned_in_passes_of_all_ranks = "its schedule has {length_} steps, one for each of the {factor} backward passes of a step on {ranks} ranks"
position_is_given = "its schedule has {length_} steps, and each call puts it at a place that it is given: at {counter} in the end"
[say.remedy]
no_argument = "Call scheduler.step() without an argument: given an epoch, the schedule stands at that number, counted in its own steps. Or give it its length in epochs, and step it once an epoch."
step_more = "Call scheduler.step() after each optimizer.step() (Lightning: interval \"step\"), or give the schedule its length and its warm-up in epochs."
plan_less = "Give the schedule its length and its warm-up in optimizer steps: divide the number of batches by {times_longer}."
[params.share]
value = 0.2
doc = "Steps of the scheduler as a share of those that it is planned for, or of the optimizer's."
source = "arithmetic: a fifth: a scheduler that goes with the optimizer makes all of them"
[params.planned]
value = 50
unit = "steps"
doc = "Length of a schedule from which it is no chance that it is the run's."
source = "convention: of this project, shorter schedules agree with a run by chance"
[params.alike]
value = 0.01
unit = "relative"
doc = "How close the planned steps come to the optimizer's."
source = "convention: of this project, a hundredth"
[params.about]
value = 2
unit = "times"
doc = "The same where the schedule's own names say that its length is in steps."
source = "convention: of this project, a run may end early or go on a little"
[params.warm]
value = 10
unit = "steps"
doc = "Length of a warm-up, at least."
source = "convention: of this project, shorter ones may be counted in epochs"
[params.close]
value = 0.02
unit = "relative"
doc = "How close a schedule that is several times too long comes to the run's passes."
source = "convention: of this project, epochs seldom end with a whole step"
[params.each]
value = 0.95
unit = "steps"
doc = "Steps of the scheduler for each of the optimizer, of one that goes with it."
source = "convention: of this project, a scaler may leave steps out"
[params.left]
value = 0.3
unit = "relative"
doc = "Rate at the end over the highest."
source = "arithmetic: half of a linear or a cosine schedule leaves half of the rate; a third leaves room for a warm-up"
[needs]
tables = ["schedulers"]
columns = ["schedulers.total_steps"]
steps = 10
[doc]
what = "The schedule of a scheduler is as long as the run has optimizer steps. Or it is about as long, and its names say that it counts steps. The scheduler was stepped once in several of them. Or its warm-up in steps has not ended although the optimizer made that many. Or the scheduler goes with the optimizer, and its schedule counts what a step joins: it is as many times as long as the run as a step has backward passes, or the run has ranks, or their product. Or each call of its step is given a place, which stays far behind the calls."
why = "To the end of the run the learning rate is at the beginning of its schedule. It stays at the low values of the warm-up, or never decays."
not_this = "Schedules and warm-ups that are counted in epochs and stepped by the epoch. Runs that broke off or are shorter than the warm-up. Schedules that are longer than the run by another factor, or whose rate has fallen at its end. Losses of one batch that go backward one by one."
source = "Counting; the schedule's own length."
*/
-- shared
WITH last AS (
    SELECT rank, scheduler_id, any_value(scheduler) AS scheduler, any_value(optimizer_id) AS optimizer_id,
        max(total_steps) AS times, max(last_epoch) AS counter, min(step) AS first, arg_max(lr, step) AS lr,
        max(lr) AS highest, sum(steps) AS seen,
        any_value(coalesce(json_extract(settings, '$.total_steps'), json_extract(settings, '$.T_max'),
            json_extract(settings, '$.total_iters'))::BIGINT) AS length_,
        any_value(json_extract(settings, '$.planned')::BIGINT) AS planned,
        any_value(json_extract(settings, '$.warmup')::BIGINT) AS warmup
    FROM schedulers
    WHERE json_valid(settings)
    GROUP BY rank, scheduler_id
), whole AS (
    SELECT l.*, (SELECT count(*)
        FROM steps s
        WHERE s.rank = l.rank AND s.optimizer_id = l.optimizer_id AND s.stepped) AS steps_
    FROM last l
    WHERE l.first = 0 AND l.times > 0 AND EXISTS (FROM script_ended WHERE by_itself)
)
-- detector: stepped_rarely
SELECT rank, first AS step, lr AS value, scheduler, optimizer_id, steps_, times,
    CASE
        WHEN warmup >= $warm AND greatest(times, coalesce(counter, 0)) < warmup AND steps_ >= warmup
        THEN 'warm_up_not_over' ELSE 'schedule_is_longer' END AS how_,
    'step_more' AS remedy, warmup, coalesce(length_, planned) AS length_
FROM whole
WHERE times <= $share * steps_
  AND (warmup >= $warm AND greatest(times, coalesce(counter, 0)) < warmup AND steps_ >= warmup
      OR length_ >= $planned
      AND times <= $share * length_
      AND abs(length_ - steps_) <= greatest(1, $alike * length_)
      OR planned >= $planned
      AND times <= $share * planned
      AND planned BETWEEN steps_ / $about AND steps_ * $about)
-- detector: position_is_given
SELECT rank, first AS step, lr AS value, scheduler, optimizer_id, steps_, times, counter,
    'position_is_given' AS how_, 'no_argument' AS remedy, warmup, length_
FROM whole
WHERE times >= $each * steps_
  AND counter <= $share * times
  AND length_ >= $planned
  AND length_ BETWEEN steps_ / $about AND steps_ * $about
-- detector: planned_in_passes
WITH drawn AS (
    SELECT rank, step, count(DISTINCT (loader_id, epoch, batch_index)) AS batches
    FROM batches WHERE loader_id IS NOT NULL AND phase <> 'eval' GROUP BY rank, step
), passes AS (
    -- what stands in a row without a step was done for the step, or thrown away: the schedule counts it
    SELECT w.rank, w.scheduler_id, sum(s.microbatches) / w.steps_ AS a_step, median(s.microbatches) AS passes,
        median(d.batches) AS batches
    FROM whole w
    JOIN steps s ON s.rank = w.rank AND coalesce(s.optimizer_id, w.optimizer_id) = w.optimizer_id
    LEFT JOIN drawn d ON d.rank = s.rank AND d.step = s.step
    GROUP BY w.rank, w.scheduler_id, w.steps_
), longer AS (
    SELECT w.*, coalesce(if(w.warmup = w.length_, NULL, w.length_), w.planned) AS planned_,
        -- several losses of one batch are no accumulation
        if(p.passes >= 2 AND coalesce(p.batches, p.passes) >= 2, p.a_step, 1) AS factor_,
        (SELECT coalesce(max(world_size), 1) FROM ranks) AS ranks
    FROM whole w JOIN passes p USING (rank, scheduler_id)
    WHERE w.seen BETWEEN $each * w.steps_ AND w.steps_ / $each
      AND abs(coalesce(w.counter, w.times) - w.times) <= 1
      AND w.lr >= $left * w.highest
), judged AS (
    SELECT *, CASE
        WHEN factor_ >= 2 AND abs(planned_ - times * factor_) <= $close * planned_ THEN 'planned_in_passes'
        WHEN ranks >= 2 AND abs(planned_ - times * ranks) <= $close * planned_ THEN 'planned_for_all_ranks'
        WHEN factor_ >= 2 AND ranks >= 2 AND abs(planned_ - times * factor_ * ranks) <= $close * planned_
        THEN 'planned_in_passes_of_all_ranks' END AS how_
    FROM longer
)
SELECT rank, first AS step, lr AS value, scheduler, optimizer_id, times AS steps_, times, how_, warmup,
    planned_ AS length_, round(factor_)::BIGINT AS factor, ranks,
    round(planned_ / times)::BIGINT AS times_longer, 'plan_less' AS remedy
FROM judged
WHERE planned_ >= $planned AND how_ IS NOT NULL
-- together
ORDER BY step, rank, optimizer_id
