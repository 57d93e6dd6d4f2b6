/*
code = "PE005"
name = "periodic-stall"
severity = "warning"
phase = "step"
signal = "step_ns"
message = "Every {period} steps, first at step {step}, a step takes {value} times the usual {usual_ms} ms ({percent} % of the run's time in all): {what_}."
fix = "Do it less often, or beside the training: asynchronous checkpoints, fewer evaluation batches, gc.freeze() after the first steps."
explains = ["step-time-outlier"]
[params.factor]
value = 5
unit = "times"
doc = "How far beyond the median step."
[params.regular]
value = 3
unit = "times"
doc = "The same where stalls come at one place of one count of steps, and at nearly each such place."
[params.share]
value = 0.1
doc = "Share of the run's time that the stalls take."
[params.least_ns]
value = 5e7
unit = "ns"
doc = "Stalls below this are scheduling."
[params.loose]
value = 0.1
doc = "Share of the usual distance, in whole steps, by which a distance may differ from it: chance alone brings distances of five to seven steps."
[needs]
tables = ["steps"]
columns = ["steps.step_ns"]
steps = 30
[doc]
what = "Steps far above the median come back at equal distances, or, amid delays of a busy machine, at one place of a count of steps and at nearly each such place."
why = "What comes back on a period has a cause in the code."
not_this = "Stalls without a period, evaluations (they are wanted), the first steps."
source = "Median and distances of the outliers."
*/
WITH counted AS (
    -- forwards without gradients that every step has, as of a target network, are no evaluation
    SELECT rank, step, step_ns, eval_forwards, median(step_ns) OVER (PARTITION BY rank) AS usual,
        median(coalesce(eval_forwards, 0)) OVER (PARTITION BY rank) AS usual_forwards,
        sum(step_ns) OVER (PARTITION BY rank) AS whole,
        row_number() OVER (PARTITION BY rank ORDER BY step) AS n
    FROM (SELECT * REPLACE (step_ns - coalesce(recorder_ns, 0) AS step_ns) FROM step_series) WHERE step_ns > 0
), slow AS (
    SELECT *, median(step_ns) OVER (PARTITION BY rank) AS usual_stall
    FROM counted
    WHERE n > 3 AND step_ns > $factor * usual AND step_ns > $least_ns
), stalls AS (
    -- one far shorter than the others, as a busy machine makes, is none of them
    SELECT *, step - lag(step) OVER (PARTITION BY rank ORDER BY step) AS distance,
        lead(step) OVER (PARTITION BY rank ORDER BY step) - step AS ahead
    FROM slow
    WHERE step_ns > 0.4 * usual_stall
), phased AS (
    SELECT *, step % period AS phase
    FROM (SELECT *, median(distance) OVER (PARTITION BY rank)::BIGINT AS period FROM stalls)
), judged AS (
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
              AND c.step BETWEEN stalls.step - 1 AND stalls.step)) AS saves
    FROM phased stalls GROUP BY rank
    HAVING count(*) >= 4
        AND median(distance) >= 2
        AND count(*) FILTER (abs(distance - (SELECT median(distance)
            FROM stalls s
            WHERE s.rank = stalls.rank)) <= floor($loose * (SELECT median(distance)
            FROM stalls s
            WHERE s.rank = stalls.rank))) >= 0.8 * (count(*) - 1)
       -- a short distance comes back by chance, but not at the same places of one count
       AND (median(distance) >= 10
           OR count(*) FILTER (phase = (SELECT mode(p.phase)
               FROM phased p
               WHERE p.rank = stalls.rank)) >= 0.8 * count(*))
), short_ AS (
    SELECT *, step - lag(step) OVER (PARTITION BY rank ORDER BY step) AS distance
    FROM counted
    WHERE n > 3 AND step_ns > $regular * usual AND step_ns > $least_ns
), counts AS (
    SELECT rank, mode(distance) FILTER (distance >= 5) AS period, count(*) AS stalls FROM short_ GROUP BY rank
), places AS (
    SELECT s.rank, c.period, c.stalls, mode(s.step % c.period) FILTER (s.distance = c.period) AS phase
    FROM short_ s
    JOIN counts c USING (rank)
    GROUP BY ALL
), regular AS (
    -- a busy machine's delays between them hide the distances, but not that each place of the count has one
    SELECT s.rank, min(s.step) AS step, any_value(p.period) AS period, median(s.step_ns / s.usual) AS value,
        any_value(s.usual) AS usual,
        sum(s.step_ns - s.usual) / any_value(s.whole) AS share, count(*) AS stalls,
            count(*) FILTER (coalesce(s.eval_forwards, 0) > s.usual_forwards) AS evaluations,
        count(*) FILTER (EXISTS (SELECT 1
            FROM checkpoints c
            WHERE c.rank = s.rank AND c.action = 'saved' AND c.step BETWEEN s.step - 1 AND s.step)) AS saves
    FROM short_ s JOIN places p ON p.rank = s.rank AND s.step % p.period = p.phase
    GROUP BY s.rank
    HAVING count(*) >= CASE WHEN any_value(p.period) >= 10 THEN 4 ELSE 6 END
        AND count(*) >= 0.9 * ((max(s.step) - min(s.step)) / any_value(p.period) + 1)
       AND count(*) >= CASE WHEN any_value(p.period) >= 10 THEN 0.6 ELSE 0.8 END * any_value(p.stalls)
)
SELECT rank, step, period, round(value, 1) AS value, round(usual / 1e6, 1) AS usual_ms,
    round(100 * share)::INT AS percent,
    CASE
        WHEN saves >= 0.5 * stalls THEN 'a checkpoint is saved then'
        ELSE 'neither an evaluation nor a checkpoint is recorded there'
        END AS what_
FROM (FROM judged UNION ALL BY NAME FROM regular WHERE rank NOT IN (SELECT rank FROM judged))
WHERE share > $share AND evaluations < 0.5 * stalls
ORDER BY step, rank
