/*
code = "OP029"
name = "scheduler-stepped-too-rarely"
severity = "error"
phase = "optimizer"
signal = "scheduler_steps"
message = "{scheduler} was stepped {times} times in {steps_} optimizer steps of optimizer {optimizer_id}, although {how_}. The learning rate at the end is {value}."
fix = "Call scheduler.step() after each optimizer.step() (Lightning: interval \"step\"), or give the schedule its length and its warm-up in epochs."
explains = ["lr-too-low", "nothing-learnt"]
[say.how_]
warm_up_not_over = "its warm-up takes {warmup} steps"
schedule_is_longer = "its schedule has {length_} steps"
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
[needs]
tables = ["schedulers"]
columns = ["schedulers.total_steps"]
steps = 10
[doc]
what = "The schedule of a scheduler is as long as the run has optimizer steps. Or it is about as long, and its names say that it counts steps. The scheduler was stepped once in several of them. Or its warm-up in steps has not ended although the optimizer made that many."
why = "To the end of the run the learning rate is at the beginning of its schedule. It stays at the low values of the warm-up, or never decays."
not_this = "Schedules and warm-ups that are counted in epochs and stepped by the epoch. Runs that broke off or are shorter than the warm-up."
source = "Counting; the schedule's own length."
*/
WITH last AS (
    SELECT rank, scheduler_id, any_value(scheduler) AS scheduler, any_value(optimizer_id) AS optimizer_id,
        max(total_steps) AS times, max(last_epoch) AS counter, min(step) AS first, arg_max(lr, step) AS lr,
        any_value(coalesce(json_extract(settings, '$.total_steps'), json_extract(settings, '$.T_max'),
            json_extract(settings, '$.total_iters'))::BIGINT) AS length_,
        any_value(json_extract(settings, '$.planned')::BIGINT) AS planned,
        any_value(json_extract(settings, '$.warmup')::BIGINT) AS warmup
    FROM schedulers
    WHERE json_valid(settings)
    GROUP BY rank, scheduler_id
), found AS (
    SELECT l.*, (SELECT count(*)
        FROM steps s
        WHERE s.rank = l.rank AND s.optimizer_id = l.optimizer_id AND s.stepped) AS steps_
    FROM last l
    WHERE l.first = 0 AND l.times > 0 AND EXISTS (FROM script_ended WHERE by_itself)
)
SELECT rank, first AS step, lr AS value, scheduler, optimizer_id, steps_, times,
    CASE
        WHEN warmup >= $warm AND greatest(times, coalesce(counter, 0)) < warmup AND steps_ >= warmup
        THEN 'warm_up_not_over' ELSE 'schedule_is_longer' END AS how_,
    warmup, coalesce(length_, planned) AS length_
FROM found
WHERE times <= $share * steps_
  AND (warmup >= $warm AND greatest(times, coalesce(counter, 0)) < warmup AND steps_ >= warmup
      OR length_ >= $planned
      AND times <= $share * length_
      AND abs(length_ - steps_) <= greatest(1, $alike * length_)
      OR planned >= $planned
      AND times <= $share * planned
      AND planned BETWEEN steps_ / $about AND steps_ * $about)
ORDER BY step, rank, optimizer_id
