-- What gathers in memory, and who owns it.

CREATE VIEW memory_growing AS
-- empty without memory_owners
WITH looks AS (
    SELECT *, count(*) OVER w AS n, lag(length) OVER w AS before FROM memory_owners
    -- what nobody is known to hold is told apart by what it gathers
    WINDOW w AS (PARTITION BY rank, kind, coalesce(holder, ''), CASE WHEN holder IS NULL THEN element || coalesce(shape::VARCHAR, '') ELSE '' END ORDER BY step)
), owners AS (
    SELECT rank, kind, holder, CASE WHEN holder IS NULL THEN element || coalesce(shape::VARCHAR, '') ELSE '' END AS what,
        arg_min(scope, step) AS scope, max(module_id) AS module_id, any_value(place) AS place, any_value(expression) AS expression, arg_max(element, step) AS element,
        arg_max(shape, step) AS shape, arg_max(dtype, step) AS dtype, arg_max(device, step) AS device, bool_or(with_graph) AS with_graph, bool_or(shared) AS shared,
        count(*) AS looks, min(step) AS first_look, max(step) AS last_look, arg_max(length, step) AS length, arg_max(rate, step) AS rate, arg_max(bytes_each, step) AS bytes_each,
        arg_min(since_step, step) AS since_step, min(rate) AS least_rate, max(rate) AS most_rate, bool_or(length < before) AS fell
    FROM looks GROUP BY ALL
)
SELECT * EXCLUDE (what, fell), round(rate * bytes_each)::BIGINT AS bytes_per_step, coalesce(NOT fell, true) AND least_rate >= 0.4 * most_rate AS steady,
    CASE kind WHEN 'sum' THEN 'the sum' WHEN 'longer' THEN 'the tensor' WHEN 'tensors' THEN 'an object that reaches them as' WHEN 'class' THEN 'objects of class' WHEN 'dict' THEN 'the dictionary' WHEN 'set' THEN 'the set' ELSE 'the list' END
        || CASE WHEN kind = 'class' THEN ' ' || element WHEN holder IS NULL THEN ' that no variable or attribute could be found for' ELSE ' `' || holder || '` (' || scope || ')' END
        || CASE WHEN place IS NULL THEN '' ELSE ', added to in ' || place || ': `' || expression || '`' END AS owner
FROM owners;
COMMENT ON VIEW memory_growing IS 'One row for each list, dictionary, sum or tensor that was found to grow. `steady`: it never fell, at similar rates. `owner` says what it is and which line adds to it.';
COMMENT ON COLUMN memory_growing.looks IS 'Looks at which it had grown.';
COMMENT ON COLUMN memory_growing.first_look IS 'Step of the first of them.';
COMMENT ON COLUMN memory_growing.last_look IS 'Step of the last of them.';
COMMENT ON COLUMN memory_growing.least_rate IS 'Smallest rate between two looks, in elements a step.';
COMMENT ON COLUMN memory_growing.most_rate IS 'Largest rate between two looks, in elements a step.';
COMMENT ON COLUMN memory_growing.bytes_per_step IS 'Memory that it gains in a step.';
COMMENT ON COLUMN memory_growing.steady IS 'Whether it never fell and grew at rates alike.';
COMMENT ON COLUMN memory_growing.owner IS 'What it is, who holds it and which line adds to it, in words.';

CREATE VIEW memory_gathered AS
-- empty without memory_growing
WITH memory AS (
    SELECT rank, step, max(anonymous_bytes) AS host, max(cuda_allocated_bytes) AS device FROM steps GROUP BY rank, step
), ends AS (
    SELECT rank, max(step) AS last FROM memory GROUP BY rank
), large AS (
    SELECT g.*, e.last, (
            -- two thirds on, or the last row before: under a budget there are few rows
            SELECT max(m.step) FROM memory m WHERE m.rank = g.rank AND m.step <= g.first_look + 2 * (e.last - g.first_look) // 3 + 1
        ) AS late
    FROM memory_growing g JOIN ends e USING (rank)
    WHERE g.kind <> 'sum' AND g.steady AND g.looks >= 2 AND g.bytes_per_step > 0
), measured AS (
    SELECT l.rank, l.kind, l.holder, l.first_look, l.late, l.last,
        median(m.bytes) FILTER (m.step BETWEEN l.first_look - 1 AND l.first_look + 1) AS early, median(m.bytes) FILTER (m.step BETWEEN l.late - 2 AND l.late) AS later,
        median(m.bytes) FILTER (m.step >= l.last - 2) AS final
    FROM large l JOIN LATERAL (SELECT n.step, CASE WHEN l.device LIKE 'cuda%' THEN n.device ELSE n.host END AS bytes FROM memory n WHERE n.rank = l.rank) m ON true
    GROUP BY ALL
)
SELECT l.* EXCLUDE (last, late), l.length + l.rate * (l.last - l.last_look) AS final_length, (l.length + l.rate * (l.last - l.last_look)) * l.bytes_each AS final_bytes
FROM large l JOIN measured m ON m.rank = l.rank AND m.kind = l.kind AND m.holder IS NOT DISTINCT FROM l.holder AND m.first_look = l.first_look
-- what is full or emptied by the end, or shares its memory with something else, is none of it
WHERE m.final - m.early >= 0.5 * l.bytes_per_step * (l.last - l.first_look) AND m.final - m.later >= 0.4 * l.bytes_per_step * (l.last - l.late);
COMMENT ON VIEW memory_gathered IS 'Objects that were found to grow. They took memory of the process, or of the device, to the end of the run.';
COMMENT ON COLUMN memory_gathered.final_length IS 'Length at the end of the run, if it went on at its last rate.';
COMMENT ON COLUMN memory_gathered.final_bytes IS 'Memory of that length.';

CREATE VIEW allocator_history AS
-- empty without memory_events
WITH changes AS (
    SELECT rank, device, event_id, time_ns, action, addr, bytes, place,
        CASE action WHEN 'alloc' THEN bytes WHEN 'free_completed' THEN -bytes ELSE 0 END AS change,
        -- of a free: the line that had allocated the block
        last_value(CASE WHEN action = 'alloc' THEN coalesce(place, 'no stack') END IGNORE NULLS) OVER (
            PARTITION BY rank, device, addr ORDER BY event_id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS owner
    FROM memory_events WHERE action IN ('alloc', 'free_completed', 'oom')
), held AS (
    SELECT rank, device, sum(allocated_bytes + awaiting_bytes) AS bytes FROM memory_segments GROUP BY rank, device
)
SELECT c.rank, c.device, c.event_id, c.time_ns, c.action, c.addr, c.bytes, coalesce(c.owner, 'before the history') AS owner, c.change,
    (coalesce(h.bytes, 0) - coalesce(sum(c.change) OVER later, 0))::BIGINT AS active_bytes
FROM changes c LEFT JOIN held h ON h.rank = c.rank AND h.device = c.device
WINDOW later AS (PARTITION BY c.rank, c.device ORDER BY c.event_id ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING);
COMMENT ON VIEW allocator_history IS 'Allocations and frees of a snapshot in their order, with the memory in use after each. It is counted back from what the snapshot holds at its end.';
COMMENT ON COLUMN allocator_history.owner IS 'Line that allocated the block; no stack, or before the history where the allocation is not in it.';
COMMENT ON COLUMN allocator_history.change IS 'Bytes that came into use, negative where they were let go.';
COMMENT ON COLUMN allocator_history.active_bytes IS 'Memory in use after the event.';

CREATE VIEW device_memory AS
-- empty without memory_segments
WITH segments AS (
    SELECT rank, device, count(*) AS segments, sum(bytes)::BIGINT AS reserved_bytes, sum(allocated_bytes)::BIGINT AS allocated_bytes, sum(awaiting_bytes)::BIGINT AS awaiting_bytes,
        sum(free_bytes)::BIGINT AS free_bytes, max(largest_free_bytes) AS largest_free_bytes, sum(allocated_bytes - requested_bytes)::BIGINT AS rounding_bytes,
        -- an empty segment can be given back; what is free beside blocks in use cannot
        coalesce(sum(free_bytes) FILTER (allocated_bytes + awaiting_bytes > 0), 0)::BIGINT AS split_bytes
    FROM memory_segments GROUP BY rank, device
), peaks AS (
    SELECT rank, device, max(active_bytes) AS peak_bytes, count(*) FILTER (action <> 'oom') AS events, min(active_bytes) AS least_bytes FROM allocator_history GROUP BY rank, device
)
SELECT s.*, greatest(coalesce(p.peak_bytes, 0), s.allocated_bytes + s.awaiting_bytes) AS peak_bytes, coalesce(p.events, 0) AS events, p.least_bytes
FROM segments s LEFT JOIN peaks p ON p.rank = s.rank AND p.device = s.device;
COMMENT ON VIEW device_memory IS 'One row for each device of an imported snapshot: what the allocator holds of it and what is in use.';
COMMENT ON COLUMN device_memory.segments IS 'How many segments there are.';
COMMENT ON COLUMN device_memory.reserved_bytes IS 'Memory that the allocator holds of the device.';
COMMENT ON COLUMN device_memory.allocated_bytes IS 'Of it in blocks that are in use.';
COMMENT ON COLUMN device_memory.awaiting_bytes IS 'Of it freed, but in use by another stream.';
COMMENT ON COLUMN device_memory.free_bytes IS 'Of it kept for later.';
COMMENT ON COLUMN device_memory.largest_free_bytes IS 'Largest free block: the largest request that needs no new segment.';
COMMENT ON COLUMN device_memory.rounding_bytes IS 'In use beyond what was asked for.';
COMMENT ON COLUMN device_memory.split_bytes IS 'Free memory in segments that also hold blocks in use: torch.cuda.empty_cache cannot give it back.';
COMMENT ON COLUMN device_memory.peak_bytes IS 'Most memory in use at any moment of the history, or at its end.';
COMMENT ON COLUMN device_memory.events IS 'Allocations and frees in the history.';
COMMENT ON COLUMN device_memory.least_bytes IS 'Least memory in use at any moment of the history.';
