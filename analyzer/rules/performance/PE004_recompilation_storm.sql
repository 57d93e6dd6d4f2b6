/*
code = "PE004"
name = "recompilation-storm"
severity = "error"
phase = "forward"
signal = "events"
message = "torch.compile compiled again {value} times after step {step}, the last time at step {last_}: {what_}."
fix = "Mark what varies (torch._dynamo.mark_dynamic, dynamic=True). Pad inputs to a few sizes. Keep Python numbers that change out of the compiled code."
seeks = ["events: event IN ('recompiled', 'recompile-limit')"]
explains = ["throughput-drift", "step-time-outlier", "periodic-stall"]
[params.least]
value = 8
unit = "times"
doc = "torch's own limit of recompilations of one function."
source = "convention: PyTorch documentation: torch._dynamo.config.recompile_limit is 8"
[params.half]
value = 0.5
unit = "of the run"
doc = "Where its second half begins."
source = "arithmetic: a half"
[needs]
tables = ["events", "steps"]
steps = 20
[doc]
what = "Recompilations keep coming in the second half of the run. Or torch.compile reaches its limit for a function and runs it uncompiled from then on."
why = "Each costs seconds; beyond the limit the function is run uncompiled."
not_this = "Compilations of the first steps, one for each of a few shapes."
source = "torch._dynamo's recompile_limit."
*/
WITH length AS (
    SELECT rank, max(step) AS last_step FROM steps GROUP BY rank
)
SELECT e.rank, min(e.step) AS step, count(*) AS value, max(e.step) AS last_,
    arg_max(e.message, e.time_ns) AS what_
FROM events e JOIN length l ON l.rank = e.rank
WHERE e.event = 'recompiled' AND e.step IS NOT NULL
GROUP BY e.rank, l.last_step HAVING count(*) >= $least AND max(e.step) > $half * l.last_step
UNION ALL BY NAME
-- after its limit nothing is compiled again, however the shapes go on
SELECT g.rank, coalesce(min(e.step), g.step) AS step, count(e.step) AS value, g.step AS last_,
    g.message AS what_
FROM (SELECT rank, step, message
    FROM events
    WHERE event = 'recompile-limit'
    QUALIFY row_number() OVER (PARTITION BY rank ORDER BY step, time_ns) = 1) g
LEFT JOIN events e ON e.rank = g.rank AND e.event = 'recompiled' AND e.step <= g.step
GROUP BY g.rank, g.step, g.message
ORDER BY step, e.rank
