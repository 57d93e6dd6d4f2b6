/*
code = "ME011"
name = "hook-leak"
severity = "error"
phase = "forward"
signal = "hooks"
message = "From step {step} on hooks gather on {place_}: {value} at the end, {rate} more a step{others_}."
fix = "Keep the handle that register_…_hook returns, and call its remove() when the hook is done. Or register it once before the loop."
seeks = ["probes: probe = 'hooks'"]
explains = ["tensor-list-growth", "host-memory-leak", "throughput-drift", "host-sync-per-step", "oom-host", "oom-device"]
[say.place_]
all_modules = "all modules (global hooks)"
model = "the model ({class_name})"
named = "{module} ({class_name})"
[say.others_]
one_more = ", and on 1 more module"
more = ", and on {others} more modules"
[params.least]
value = 8
unit = "hooks"
doc = "Hooks gained by one module."
source = "convention: of this project, fewer may be put there on purpose, one by one"
[params.rises]
value = 4
unit = "modules"
doc = "Looks with a growth."
source = "convention: of this project, fewer may be put there on purpose"
[params.one_a_step]
value = 0.9
unit = "per step"
doc = "Growth of hooks from which one is gained in each step."
source = "convention: of this project, one of ten steps may not be seen"
[params.two]
value = 1.5
unit = "steps"
doc = "Hooks at the start, in steps of growth, up to which it began there."
source = "convention: of this project, rounding of a rate"
[needs]
tables = ["probes", "steps"]
[doc]
what = "The number of hooks of one module, or of its parameters, grows again and again. It never falls, to the end of the run."
why = "Each hook runs at every call: time grows with the steps, and so does what the hooks hold."
not_this = "Hooks registered once on many modules, hooks that are registered and removed in turns."
source = "Counting them."
*/
WITH ends AS (
    SELECT rank, min(step) AS start, max(step) FILTER (completed) AS end_ FROM steps GROUP BY rank
), counts AS (
    SELECT p.rank, p.module_id, p.step, max(p.value) AS n
    FROM probes p
    WHERE p.probe = 'hooks'
    GROUP BY p.rank, p.module_id, p.step
), changes AS (
    SELECT *, lag(n, 1, 0) OVER w AS before, lag(step) OVER w AS step_before
    FROM counts
    WINDOW w AS (PARTITION BY rank, module_id ORDER BY step)
), since AS (
    -- from the last fall on, and without what was there at the first look
    SELECT c.*, e.start, e.end_ FROM changes c JOIN ends e ON e.rank = c.rank
    WHERE c.step > e.start
      AND c.step > (SELECT coalesce(max(b.step) FILTER (b.n < b.before), -1)
          FROM changes b
          WHERE b.rank = c.rank AND b.module_id IS NOT DISTINCT FROM c.module_id)
), grown AS (
    SELECT rank, module_id, any_value(start) AS start, min(step) AS first, max(step) AS last,
        arg_min(n, step) AS n_first, max(n) AS value, arg_min(before, step) AS base,
        (max(n) - arg_min(n, step)) / nullif(max(step) - min(step), 0) AS rate
    FROM since GROUP BY rank, module_id
    HAVING max(n) - arg_min(before, step) >= $least
        AND count(*) >= $rises
        AND any_value(end_) - max(step) <= 2 * max(step - coalesce(step_before, step)) + 1
), dated AS (
    SELECT g.*, m.module, m.class_name, m.call_order,
        CASE
            WHEN rate >= $one_a_step THEN greatest(first - round((n_first - base) / rate)::BIGINT + 1, start)
            ELSE first
            END AS step
    FROM grown g LEFT JOIN modules m ON m.rank = g.rank AND m.module_id = g.module_id
)
SELECT rank, CASE WHEN step = start + 1 AND base BETWEEN 1 AND $two * rate THEN start ELSE step END AS step,
    module, class_name,
    CASE
        WHEN module_id IS NULL THEN 'all_modules'
        WHEN module = '' THEN 'model'
        ELSE 'named'
        END AS place_,
    value, round(rate, 2) AS rate,
    count(*) OVER (PARTITION BY rank) - 1 AS others,
    CASE WHEN others = 1 THEN 'one_more' WHEN others > 1 THEN 'more' END AS others_
FROM dated ORDER BY step, rank, call_order NULLS LAST
