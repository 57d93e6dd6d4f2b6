/*
code = "PE016"
name = "late-rank"
severity = "warning"
phase = "step"
signal = "late_ns"
message = "Rank {rank} comes {late_ms} ms late to the collectives of {where_}, and the others wait for it. With all ranks in time a step would take up to {percent} % less."
fix = "Compare what rank {rank} does before these calls with another rank. It may be the size and length of its batches, or its data loader. It may be a slower or hotter device, or work that only this rank does."
seeks = ["rank_lateness: late_ns > $share * ns AND late_ns > $least_ns"]
explains = ["low-device-use", "exposed-communication"]
[say.where_]
steps = "{late_steps} of {profiled_steps} profiled steps"
whole_profile = "the whole profile"
[params.share]
value = 0.15
doc = "Lateness over the length of the step; that from which straggler, too, gives advice."
source = "convention: of this project, the share from which straggler, too, gives advice"
[params.least_ns]
value = 1e6
unit = "ns"
doc = "Lateness below this is scheduling."
source = "convention: of this project, 1 ms: less is scheduling"
[needs]
tables = ["profiler_events", "ranks"]
[doc]
what = "This applies to profiles of several ranks. In most profiled steps one rank is in the same collectives for a shorter time than the others. It comes last, and they wait."
why = "A collective ends on all ranks at once, so the last to come is in it for the shortest time. Clocks of different hosts need not agree for that."
not_this = "Waiting that computation hides. Calls between two ranks. Profiles that hold different numbers of calls. A rank that is late in one step only. A difference below a seventh of the step."
source = "What-if time, as for straggler: a step with the late rank as early as the median of the others."
*/
WITH marked AS (
    SELECT *, late_ns > $share * ns AND late_ns > $least_ns AS late FROM rank_lateness
), ranks_ AS (
    SELECT rank, min(step) FILTER (late) AS first_step, count(*) AS steps,
        count(CASE WHEN late THEN 1 END) AS late_steps, median(late_ns) AS late_ns, median(ns) AS ns,
        bool_or(step IS NULL) AS whole
    FROM marked GROUP BY rank
)
SELECT first_step AS step, rank, late_ns AS value, in_ms(late_ns) AS late_ms,
    percent_of_whole(late_ns, ns) AS percent, late_steps, steps AS profiled_steps,
    CASE WHEN whole THEN 'whole_profile' ELSE 'steps' END AS where_
FROM ranks_ WHERE late_steps > steps / 2 AND (whole OR steps > 1) AND late_ns > $share * ns
ORDER BY late_ns DESC, rank LIMIT 1
