/*
code = "DI007"
name = "straggler"
severity = "error"
phase = "step"
signal = "step_ns"
message = "From step {step} on rank {rank} is late by {late_ms} ms a step. The others wait for it in the exchange of gradients. Without that a step would take {percent} % less time."
fix = "Compare what rank {rank} does outside backward. Look at its data loader, the size and length of its batches, logging, evaluation or checkpoints, and its host."
seeks = ["steps: rank <> 0"]
explains = []
[params.share]
value = 0.25
doc = "Lateness over step time; other tools speak of a straggler below three quarters of the ideal speed."
source = "convention: other tools speak of a straggler below three quarters of the ideal speed"
[params.advice]
value = 0.15
doc = "Share from which it is advice, where it lasts."
source = "convention: of this project, about half of what is an error"
[params.least_ns]
value = 5e6
unit = "ns"
doc = "Lateness below this is scheduling."
source = "convention: of this project, the scheduler of an operating system hands out slices of some milliseconds"
[params.steps]
value = 10
unit = "steps"
doc = "Steps that it lasts."
source = "convention: of this project, fewer are a busy machine"
[params.soon_late]
value = 0.8
unit = "of the steps"
doc = "Share of the next steps that must be late."
source = "convention: of this project, four of five"
[params.later_late]
value = 0.7
unit = "of the steps"
doc = "Share of the steps from there on."
source = "convention: of this project, two of three and some more"
[needs]
tables = ["steps", "collectives"]
columns = ["steps.step_ns", "steps.backward_ns"]
steps = 10
[doc]
what = "One rank spends more time than the others outside backward and its own waiting. The others spend as much more inside. So the rank with the shortest wait is the late one."
why = "Every step ends when the last rank has given its gradients."
not_this = "A rank that now and then logs or saves. Differences below a seventh of the step (below a quarter it is only a warning). A rank whose backward itself is slow."
source = "What-if time: the step with the late rank as early as the median of the others."
*/
WITH waits AS (
    SELECT rank, step, sum(waited_ns) AS waited_ns
    FROM collective_calls
    WHERE phase <> 'backward' AND step IS NOT NULL
    GROUP BY rank, step
), times AS (
    SELECT s.rank, s.step, s.step_ns, s.step_ns - s.backward_ns - coalesce(w.waited_ns, 0) AS own_ns,
        s.backward_ns + coalesce(w.waited_ns, 0) AS wait_ns
    FROM step_series s LEFT JOIN waits w ON w.rank = s.rank AND w.step = s.step
    WHERE s.step_ns IS NOT NULL AND s.backward_ns IS NOT NULL AND (SELECT count(*) FROM collective_calls) > 0
), beside AS (
    SELECT a.rank, a.step, any_value(a.step_ns) AS step_ns,
        least(any_value(a.own_ns) - median(b.own_ns), median(b.wait_ns) - any_value(a.wait_ns)) AS late_ns
    FROM times a JOIN times b ON b.step = a.step AND b.rank <> a.rank GROUP BY a.rank, a.step
), marked AS (
    SELECT b.*, l.share, late_ns > l.share * step_ns AND late_ns > $least_ns AS late
    FROM beside b CROSS
    JOIN (VALUES ($share), ($advice)) l(share)
), series AS (
    SELECT *, count(CASE WHEN late THEN 1 END) OVER ahead AS soon,
        count(CASE WHEN late THEN 1 END) OVER rest AS later, count(*) OVER rest AS left_
    FROM marked
    WINDOW ahead AS (PARTITION BY rank, share
        ORDER BY step ROWS BETWEEN CURRENT ROW AND $steps - 1 FOLLOWING),
        rest AS (PARTITION BY rank, share ORDER BY step ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)
), begun AS (
    SELECT rank, share, min(step) AS step
    FROM series
    WHERE late AND soon >= $soon_late * $steps AND later >= $later_late * left_
    GROUP BY rank, share
    QUALIFY row_number() OVER (PARTITION BY rank ORDER BY share DESC) = 1
)
SELECT b.rank, b.step, median(m.late_ns) AS value, in_ms(median(m.late_ns)) AS late_ms,
    percent_of_whole(median(m.late_ns), median(m.step_ns)) AS percent,
    CASE WHEN b.share < $share THEN 'warning' END AS severity
FROM begun b JOIN marked m ON m.rank = b.rank AND m.share = b.share AND m.step >= b.step
GROUP BY b.rank, b.step, b.share ORDER BY b.step, b.rank
