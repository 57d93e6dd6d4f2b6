/*
code = "PE005"
name = "periodic-stall"
severity = "warning"
phase = "step"
signal = "step_ns"
message = "Every {period} steps, first at step {step}, a step takes {value} times the usual {usual_ms} ms: {what_}. This costs {percent} % of the run's time."
fix = "{remedy_}"
seeks = ["step_series: step >= $warm AND step_ns - coalesce(recorder_ns, 0) > $least_ns"]
explains = ["step-time-outlier"]
[say.what_]
checkpoint_saved = "a checkpoint is saved then"
nothing_recorded = "neither an evaluation nor a checkpoint is recorded there"
workers_start = "a pass over a loader begins then, and starts its workers anew, unless they are persistent"
[say.remedy_]
less_often = "Do it less often, or beside the training: asynchronous checkpoints, fewer evaluation batches, gc.freeze() after the first steps."
persist = "Give persistent_workers=True to the DataLoader: its workers then stay between two passes."
[params.factor]
value = 5
unit = "times"
doc = "How far beyond the median step."
source = "own history"
[params.regular]
value = 3
unit = "times"
doc = "The same where stalls come at one place of one count of steps, and at nearly each such place."
source = "own history"
[params.share]
value = 0.1
doc = "Share of the run's time that the stalls take."
source = "convention: of this project, a tenth: less is not worth a change"
[params.least_ns]
value = 5e7
unit = "ns"
doc = "Stalls below this are scheduling."
source = "convention: of this project, 50 ms: shorter ones are scheduling on a busy machine"
[params.loose]
value = 0.1
doc = "Share of the usual distance, in whole steps, by which a distance may differ from it: chance alone brings distances of five to seven steps."
source = "arithmetic: chance alone brings distances of five to seven steps"
[params.warm]
value = 3
unit = "steps"
doc = "First steps, which start workers and fill caches."
source = "convention: of this project, they take longer in any run"
[params.far_shorter]
value = 0.4
unit = "of the usual stall"
doc = "Length below which a stall is none of them."
source = "convention: of this project, less than half"
[params.stalls]
value = 4
unit = "stalls"
doc = "Stalls that make a series."
source = "convention: of this project, fewer are at equal distances by chance"
[params.most]
value = 0.8
unit = "of the stalls"
doc = "Share of them that must keep the distance, or the place."
source = "convention: of this project, one of five may be the machine's"
[params.distance]
value = 10
unit = "steps"
doc = "Distance from which no chance makes equal ones."
source = "arithmetic: a tenth of it is one whole step"
[params.shortest]
value = 5
unit = "steps"
doc = "Least distance that is looked for among shorter stalls."
source = "convention: of this project, less belongs to the pace of the steps"
[params.places]
value = 0.9
unit = "of the places"
doc = "Share of the places of the count that have a stall."
source = "convention: of this project, one of ten may be missed"
[params.half]
value = 0.5
unit = "of the stalls"
doc = "What most of them are."
source = "arithmetic: a majority is more than a half"
[params.stalls_far]
value = 4
unit = "stalls"
doc = "The same at places of a count of ten steps and more."
source = "convention: of this project, fewer are at equal distances by chance"
[params.stalls_near]
value = 6
unit = "stalls"
doc = "The same at places of a shorter count."
source = "convention: of this project, chance brings more of them"
[params.share_far]
value = 0.6
unit = "of the stalls"
doc = "Share of all stalls that come at that place, of a count of ten steps and more."
source = "convention: of this project, six of ten"
[params.share_near]
value = 0.8
unit = "of the stalls"
doc = "The same of a shorter count."
source = "convention: of this project, four of five"
[needs]
tables = ["steps"]
columns = ["steps.step_ns"]
steps = 30
[doc]
what = "Steps far above the median come back at equal distances. Or, amid delays of a busy machine, they come at one place of a count of steps, nearly each time."
why = "What comes back on a period has a cause in the code."
not_this = "Stalls without a period, evaluations (they are wanted), the first steps."
source = "Median and distances of the outliers."
*/
-- shared
WITH counted AS (
    -- forwards without gradients that every step has, as of a target network, are no evaluation
    SELECT rank, step, step_ns, eval_forwards, median(step_ns) OVER (PARTITION BY rank) AS usual,
        median(coalesce(eval_forwards, 0)) OVER (PARTITION BY rank) AS usual_forwards,
        sum(step_ns) OVER (PARTITION BY rank) AS whole,
        row_number() OVER (PARTITION BY rank ORDER BY step) AS n
    FROM (SELECT * REPLACE (step_ns - coalesce(recorder_ns, 0) AS step_ns) FROM step_series) WHERE step_ns > 0
)
-- shared: starts
-- a later pass over a loader begins, with workers
SELECT DISTINCT b.rank, b.step
FROM batches b
WHERE b.phase = 'data' AND b.workers > 0 AND b.batch_index = 0 AND b.epoch >= 1
-- detector: judged
WITH slow AS (
    SELECT *, median(step_ns) OVER (PARTITION BY rank) AS usual_stall
    FROM counted
    WHERE n > $warm AND step_ns > $factor * usual AND step_ns > $least_ns
), stalls AS (
    -- one far shorter than the others, as a busy machine makes, is none of them
    SELECT *, step - lag(step) OVER (PARTITION BY rank ORDER BY step) AS distance,
        lead(step) OVER (PARTITION BY rank ORDER BY step) - step AS ahead
    FROM slow
    WHERE step_ns > $far_shorter * usual_stall
), phased AS (
    SELECT *, step % period AS phase
    FROM (SELECT *, median(distance) OVER (PARTITION BY rank)::BIGINT AS period FROM stalls)
)
SELECT rank,
    min(step) FILTER (abs(ahead - (SELECT median(distance)
        FROM stalls s
        WHERE s.rank = stalls.rank)) <= 1) AS step,
    median(distance)::BIGINT AS period, median(step_ns / usual) AS value, any_value(usual) AS usual,
    sum(step_ns - usual) / any_value(whole) AS share, count(*) AS stalls,
        count(*) FILTER (coalesce(eval_forwards, 0) > usual_forwards) AS evaluations,
    count(*) FILTER (EXISTS (SELECT 1
        FROM checkpoints c
        WHERE c.rank = stalls.rank
          AND c.action = 'saved'
          AND c.step BETWEEN stalls.step - 1 AND stalls.step)) AS saves,
    count(*) FILTER ((rank, step) IN (FROM starts)) AS begun
FROM phased stalls GROUP BY rank
HAVING count(*) >= $stalls
    AND median(distance) >= 2
    AND count(*) FILTER (abs(distance - (SELECT median(distance)
        FROM stalls s
        WHERE s.rank = stalls.rank)) <= floor($loose * (SELECT median(distance)
        FROM stalls s
        WHERE s.rank = stalls.rank))) >= $most * (count(*) - 1)
   -- a short distance comes back by chance, but not at the same places of one count
   AND (median(distance) >= $distance
       OR count(*) FILTER (phase = (SELECT mode(p.phase)
           FROM phased p
           WHERE p.rank = stalls.rank)) >= $most * count(*))
-- detector: regular
WITH short_ AS (
    SELECT *, step - lag(step) OVER (PARTITION BY rank ORDER BY step) AS distance
    FROM counted
    WHERE n > $warm AND step_ns > $regular * usual AND step_ns > $least_ns
), counts AS (
    SELECT rank, mode(distance) FILTER (distance >= $shortest) AS period, count(*) AS stalls
    FROM short_
    GROUP BY rank
), places AS (
    SELECT s.rank, c.period, c.stalls, mode(s.step % c.period) FILTER (s.distance = c.period) AS phase
    FROM short_ s
    JOIN counts c USING (rank)
    GROUP BY ALL
)
-- a busy machine's delays between them hide the distances, but not that each place of the count has one
SELECT s.rank, min(s.step) AS step, any_value(p.period) AS period, median(s.step_ns / s.usual) AS value,
    any_value(s.usual) AS usual,
    sum(s.step_ns - s.usual) / any_value(s.whole) AS share, count(*) AS stalls,
        count(*) FILTER (coalesce(s.eval_forwards, 0) > s.usual_forwards) AS evaluations,
    count(*) FILTER (EXISTS (SELECT 1
        FROM checkpoints c
        WHERE c.rank = s.rank AND c.action = 'saved' AND c.step BETWEEN s.step - 1 AND s.step)) AS saves,
    count(*) FILTER ((s.rank, s.step) IN (FROM starts)) AS begun
FROM short_ s JOIN places p ON p.rank = s.rank AND s.step % p.period = p.phase
WHERE s.rank NOT IN (SELECT rank FROM judged)
GROUP BY s.rank
HAVING count(*) >= CASE WHEN any_value(p.period) >= $distance THEN $stalls_far ELSE $stalls_near END
    AND count(*) >= $places * ((max(s.step) - min(s.step)) / any_value(p.period) + 1)
   AND count(*) >= CASE
       WHEN any_value(p.period) >= $distance THEN $share_far
       ELSE $share_near
       END * any_value(p.stalls)
-- together
SELECT rank, step, period, round(value, 1) AS value, in_ms(usual) AS usual_ms,
    percent_of(share) AS percent,
    CASE WHEN saves >= $half * stalls THEN 'checkpoint_saved'
        WHEN begun >= $half * stalls THEN 'workers_start' ELSE 'nothing_recorded' END AS what_,
    if(what_ = 'workers_start', 'persist', 'less_often') AS remedy_
FROM found
WHERE share > $share AND evaluations < $half * stalls
ORDER BY step, rank
