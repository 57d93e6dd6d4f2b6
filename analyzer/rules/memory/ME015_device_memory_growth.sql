/*
code = "ME015"
name = "device-memory-growth"
severity = "warning"
phase = "forward"
signal = "memory"
message = "In the history of the snapshot {place} allocates blocks of {each_bytes:bytes} that are never freed. There are {blocks} of them, {value:bytes} in all. Meanwhile the memory in use rose and fell {cycles} times. It goes up from {first_bytes:bytes} to {last_bytes:bytes}."
fix = "Look at what {place} computes and who keeps it. It may be a list or attribute that gets a tensor with its graph, or an output kept for a metric. Add .detach().cpu() or .item(), or empty it."
explains = ["oom-device", "cuda-fragmentation"]
[params.blocks]
value = 8
unit = "blocks"
doc = "Blocks of one size from one line that must have stayed."
source = "convention: of this project, fewer may be kept on purpose"
[params.share]
value = 0.01
doc = "Of all memory in use that they must take."
source = "convention: of this project, less is not what fills a device"
[params.cycles]
value = 3
unit = "cycles"
doc = "Times that the memory in use must have fallen from above its level to below it: within one step everything may still be in use."
source = "convention: of this project, as many times as show that the level is one of steps"
[params.swing]
value = 0.05
doc = "Distance from the mean of the sixth of the history, over the range of all, that counts as above or below."
source = "convention: of this project, a twentieth of the range is no step of the allocator"
[params.parts]
value = 6
unit = "parts"
doc = "Parts of the history whose means are compared."
source = "arithmetic: sixths"
[params.quarters]
value = 4
unit = "parts"
doc = "Parts of the history in each of which blocks must have been taken."
source = "arithmetic: quarters"
[params.kept]
value = 0.9
unit = "of the blocks"
doc = "Share of the blocks of that line that have stayed."
source = "convention: of this project, one of ten may be let go"
[params.at_the_end]
value = 0.85
unit = "of the history"
doc = "Where the last of them was taken."
source = "convention: of this project, near its end"
[needs]
tables = ["memory_events", "memory_segments"]
[doc]
what = "A snapshot's history in which blocks of one size from one line stay, all along, while steps come and go."
why = "Memory that is never released fills the device, sooner or later."
not_this = "Weights and optimizer state, which are made at one time. A history shorter than three steps. Caches that are full. Blocks that are small against all."
source = "The allocator's own history."
*/
WITH bounds AS (
    SELECT rank, device, min(event_id) AS first_event, max(event_id) AS last_event,
        max(active_bytes) - min(active_bytes) AS range, arg_min(active_bytes, event_id) AS first_,
        arg_max(active_bytes, event_id) AS last_
    FROM allocator_history GROUP BY rank, device HAVING last_event > first_event
), parts AS (
    SELECT rank, device, event_id, active_bytes,
        ntile($parts) OVER (PARTITION BY rank, device ORDER BY event_id) AS part
    FROM allocator_history
), sides AS (
    SELECT p.rank, p.device, p.event_id,
        CASE WHEN p.off > $swing * b.range THEN 1 WHEN p.off < -$swing * b.range THEN -1 END AS side
    FROM (SELECT *, active_bytes - avg(active_bytes) OVER (PARTITION BY rank, device, part) AS off
        FROM parts) p
    JOIN bounds b ON b.rank = p.rank AND b.device = p.device
), turns AS (
    SELECT rank, device, count(CASE WHEN side = -1 AND was = 1 THEN 1 END) AS cycles
    FROM (SELECT *, lag(side) OVER (PARTITION BY rank, device ORDER BY event_id) AS was
        FROM sides
        WHERE side IS NOT NULL)
    GROUP BY rank, device
), fates AS (
    SELECT rank, device, event_id, action, bytes, owner,
        lead(action) OVER (PARTITION BY rank, device, addr ORDER BY event_id) AS next_
    FROM allocator_history
    WHERE action <> 'oom'
), lines AS (
    SELECT f.rank, f.device, f.owner AS place, f.bytes, count(*) AS made,
        count(CASE WHEN f.next_ IS NULL THEN 1 END) AS blocks,
        len(list(DISTINCT CASE
            WHEN f.next_ IS NULL THEN ($quarters * (f.event_id - b.first_event)) // (b.last_event
                - b.first_event + 1)
            END)) AS quarters,
        max(CASE
            WHEN f.next_ IS NULL THEN (f.event_id - b.first_event) / (b.last_event - b.first_event)
            END) AS last_at
    FROM fates f
    JOIN bounds b ON b.rank = f.rank AND b.device = f.device
    WHERE f.action = 'alloc' AND f.owner <> 'no stack'
    GROUP BY ALL
)
SELECT l.rank, 0 AS step, l.place, l.device, l.blocks, l.bytes AS each_bytes,
    (l.bytes * l.blocks)::DOUBLE AS value, t.cycles, b.first_ AS first_bytes, b.last_ AS last_bytes,
    CASE WHEN EXISTS (FROM memory_events o
        WHERE o.rank = l.rank
          AND o.device = l.device
          AND o.action = 'oom') THEN 'error' ELSE 'warning' END AS severity
FROM lines l
JOIN bounds b ON b.rank = l.rank AND b.device = l.device
JOIN turns t ON t.rank = l.rank AND t.device = l.device
WHERE l.blocks >= $blocks
  AND l.blocks >= $kept * l.made
  AND l.quarters = $quarters
  AND l.last_at > $at_the_end
  AND t.cycles >= $cycles
  AND l.bytes * l.blocks > $share * b.last_ AND b.last_ > b.first_
ORDER BY l.rank, value DESC, l.place
