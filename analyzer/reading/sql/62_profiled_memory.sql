-- Memory as profiles tell it: the [memory] events of profile_memory=True, and memory timelines.

CREATE VIEW memory_changes AS
-- empty without profiler_events: name = '[memory]' | memory_events
WITH told AS (
    SELECT rank, window_id, event_id, step, pid, tid, ts_ns AS time_ns, bytes AS change, total_allocated, addr,
        CASE device_type WHEN 0 THEN 'cpu' ELSE 'cuda:' || device END AS device
    FROM profiler_events WHERE name = '[memory]' AND bytes <> 0 AND ts_ns IS NOT NULL
), operators AS (
    -- aten::empty and its like say nothing: the operator that asked for the memory does
    SELECT rank, window_id, pid, tid, ts_ns, dur_ns, name FROM profiler_events
    WHERE ph = 'X' AND cat = 'cpu_op' AND dur_ns >= 0 AND (SELECT count(*) FROM told) > 0
        AND NOT regexp_matches(name, '^aten::(empty|resize_|new_empty|_?to_copy$|set_)')
)
SELECT t.rank, t.window_id, t.event_id, t.step, t.device, t.time_ns, t.change, t.total_allocated AS held_bytes, t.addr,
    CASE WHEN t.time_ns <= o.ts_ns + o.dur_ns THEN o.name END AS owner
FROM told t ASOF LEFT JOIN operators o ON o.rank = t.rank AND o.window_id = t.window_id AND o.pid = t.pid AND o.tid = t.tid AND o.ts_ns <= t.time_ns
UNION ALL
SELECT rank, 0, event_id, step, coalesce(device, 'the device'), time_ns, change,
    sum(change) OVER (PARTITION BY rank, device ORDER BY event_id)::BIGINT, NULL, category
FROM (SELECT *, NULL::BIGINT AS step, CASE action WHEN 'alloc' THEN bytes WHEN 'free_completed' THEN -bytes END AS change FROM memory_events)
WHERE change IS NOT NULL AND rank NOT IN (SELECT rank FROM memory_segments);
COMMENT ON VIEW memory_changes IS 'Memory that came into use or was freed in profiles. Each [memory] event and each change of a memory timeline is a row.';
COMMENT ON COLUMN memory_changes.change IS 'Bytes that came into use, negative where they were let go of.';
COMMENT ON COLUMN memory_changes.held_bytes IS 'Memory in use on the device afterwards.';
COMMENT ON COLUMN memory_changes.owner IS 'Operator in which it happened; of a memory timeline the category, such as activation. Null outside of operators.';

CREATE VIEW profiled_memory AS
-- empty without memory_changes
SELECT rank, window_id, device, step, count(*) FILTER (change > 0) AS allocations, (sum(change) FILTER (change > 0))::BIGINT AS allocated_bytes,
    max(held_bytes) AS peak_bytes, arg_max(held_bytes, event_id) AS last_bytes, sum(change)::BIGINT AS grown_bytes
FROM memory_changes GROUP BY rank, window_id, device, step;
COMMENT ON VIEW profiled_memory IS 'Memory of each device in each profiled step, or in the whole of a profile without steps.';
COMMENT ON COLUMN profiled_memory.allocations IS 'Allocations in the step.';
COMMENT ON COLUMN profiled_memory.allocated_bytes IS 'Their bytes together.';
COMMENT ON COLUMN profiled_memory.peak_bytes IS 'Most memory in use.';
COMMENT ON COLUMN profiled_memory.last_bytes IS 'Memory in use at its end.';
COMMENT ON COLUMN profiled_memory.grown_bytes IS 'What came into use less what was let go of.';

CREATE VIEW memory_left AS
-- empty without memory_changes
WITH fates AS (
    SELECT rank, window_id, device, step, event_id, owner, change, lead(change) OVER (PARTITION BY rank, window_id, device, addr ORDER BY event_id) AS next_
    FROM memory_changes WHERE addr IS NOT NULL
)
SELECT rank, window_id, device, coalesce(owner, 'outside of operators') AS owner, count(*) AS blocks, sum(change)::BIGINT AS bytes, count(DISTINCT step) AS steps
FROM fates WHERE change > 0 AND next_ IS NULL GROUP BY ALL;
COMMENT ON VIEW memory_left IS 'Blocks of a profile that were not let go of by its end, by the operator that asked for them.';
COMMENT ON COLUMN memory_left.owner IS 'Operator in which they were allocated.';
COMMENT ON COLUMN memory_left.steps IS 'Profiled steps in which such a block was allocated.';
