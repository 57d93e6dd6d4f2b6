/*
code = "ME016"
name = "profiled-memory-growth"
severity = "warning"
phase = "step"
signal = "memory"
message = "Memory in use on {device} is {value:bytes} larger after each of {steps} profiled steps, from {first_bytes:bytes} to {last_bytes:bytes}{left_}."
fix = "Look for what is kept from step to step. It may be a loss with its graph in a list, outputs kept for a metric, or an unbounded cache. Use .item() or .detach(), or empty it."
seeks = ["profiled_memory: step IS NOT NULL AND last_bytes IS NOT NULL"]
explains = []
[say.left_]
from_an_operator = "; {left_bytes:bytes} of it in {blocks} blocks from {owner}"
[params.steps]
value = 4
unit = "steps"
doc = "Profiled steps in a row at whose end more is in use than at the end of the one before."
source = "convention: of this project, fewer may be warm-up"
[params.share]
value = 0.001
doc = "Growth of a step over what is in use: less is what allocators round."
source = "arithmetic: the caching allocator rounds to 512 bytes and to 2 MiB, some thousandths of what a model holds"
[params.even]
value = 2
doc = "Largest growth of a step over the smallest: what is kept by mistake grows evenly, what is warming up does not."
source = "convention: of this project, what is kept at each step has one size"
[needs]
tables = ["profiler_events"]
[doc]
what = "This applies to a profile with profile_memory=True. The memory in use at the end of each step goes up by about the same amount."
why = "In a steady training the end of every step finds the same tensors alive."
not_this = "The first steps, in which gradients and optimizer state are made. Steps of different batches. Profiles of fewer than four steps."
source = "The profiler's own [memory] events."
*/
WITH ends AS (
    SELECT rank, window_id, device, step, last_bytes, last_bytes - lag(last_bytes) OVER each_ AS grown,
        count(*) OVER (PARTITION BY rank, window_id, device) AS steps
    FROM profiled_memory WHERE step IS NOT NULL AND last_bytes IS NOT NULL
    WINDOW each_ AS (PARTITION BY rank, window_id, device ORDER BY step)
), growing AS (
    SELECT rank, window_id, device, min(step) AS first_step, any_value(steps) AS steps, min(grown) AS least,
        max(grown) AS most, median(grown) AS grown,
        arg_min(last_bytes, step) AS first_, arg_max(last_bytes, step) AS last_
    FROM ends GROUP BY rank, window_id, device
)
SELECT g.rank, g.first_step AS step, g.device, g.steps, g.grown::DOUBLE AS value,
    g.first_ AS first_bytes, g.last_ AS last_bytes,
    CASE WHEN l.owner IS NOT NULL THEN 'from_an_operator' END AS left_, l.bytes AS left_bytes, l.blocks,
    l.owner
FROM growing g
LEFT JOIN memory_left l ON l.rank = g.rank AND l.window_id = g.window_id AND l.device = g.device
    AND l.steps >= g.steps - 1
WHERE g.steps >= $steps AND g.least > $share * g.first_ AND g.most <= $even * g.least
ORDER BY g.grown DESC, g.rank, g.window_id, g.device, l.bytes DESC NULLS LAST, l.owner LIMIT 1
