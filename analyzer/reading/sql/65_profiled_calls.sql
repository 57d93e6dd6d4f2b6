-- Collectives as profiles of several ranks show them. A call ends on all ranks at once, so that whoever came last has the shortest one:
-- lengths of one call are compared, never clocks of two hosts.

CREATE VIEW profiled_calls AS
-- empty without profiler_events
WITH found AS (
    SELECT rank, window_id, step, event_id, ts_ns, dur_ns, name, args_json, lower(cat) = 'kernel' AS on_device
    FROM profiler_events
    WHERE ph = 'X' AND dur_ns >= 0 AND (lower(cat) = 'kernel' AND regexp_matches(lower(name), 'nccl|rccl') OR cat = 'user_annotation' AND starts_with(name, 'gloo:'))
), told AS (
    SELECT * EXCLUDE (args_json),
        coalesce(json_extract_string(args_json, '$."Collective name"'), nullif(regexp_extract(name, '^gloo:(\w+)', 1), ''),
            regexp_extract(lower(name), '(allreduce|allgather|reducescatter|broadcast|alltoall|sendrecv|reduce)', 1)) AS called,
        nullif(json_extract_string(args_json, '$."Process Group Ranks"'), '') AS members,
        coalesce(json_extract_string(args_json, '$."Process Group Name"'), '') AS group_name,
        nullif(json_extract_string(args_json, '$."Process Group Description"'), 'undefined') AS about,
        try_cast(json_extract_string(args_json, '$."In msg nelems"') AS BIGINT) AS numel,
        try_cast(json_extract_string(args_json, '$."Seq"') AS BIGINT) AS seq
    FROM found
), named AS (
    SELECT *, CASE lower(replace(called, '_', ''))
            WHEN 'allreduce' THEN 'all_reduce' WHEN 'allreducecoalesced' THEN 'all_reduce' WHEN 'allgather' THEN 'all_gather' WHEN 'allgatherbase' THEN 'all_gather_into_tensor'
            WHEN 'allgatherintotensorcoalesced' THEN 'all_gather_into_tensor' WHEN 'reducescatter' THEN 'reduce_scatter' WHEN 'reducescatterbase' THEN 'reduce_scatter_tensor'
            WHEN 'alltoall' THEN 'all_to_all' WHEN 'alltoallv' THEN 'all_to_all' WHEN 'alltoallbase' THEN 'all_to_all' ELSE lower(called) END AS op,
        CASE WHEN about IN ('default_pg', 'default') THEN 'default' ELSE coalesce(about || ' ', '') || group_name || coalesce(' of ranks ' || members, '') END AS "group"
    FROM told
)
SELECT rank, window_id, step, event_id, ts_ns, dur_ns, op, nullif(trim("group"), '') AS "group", members, numel, on_device,
    row_number() OVER (PARTITION BY rank, window_id, "group" ORDER BY coalesce(seq, 0), ts_ns, event_id) - 1 AS number
FROM named;
COMMENT ON VIEW profiled_calls IS 'Collectives in profiles: kernels of NCCL and RCCL, and the calls of gloo.';
COMMENT ON COLUMN profiled_calls.op IS 'Function, such as all_reduce, as far as the trace or the kernel''s name tells.';
COMMENT ON COLUMN profiled_calls.group IS 'Process group with its ranks; default for that of all ranks, null where the trace does not tell.';
COMMENT ON COLUMN profiled_calls.members IS 'Ranks of the group as the trace writes them; null where it does not tell.';
COMMENT ON COLUMN profiled_calls.on_device IS 'Whether it ran on a device; on the host for gloo.';
COMMENT ON COLUMN profiled_calls.number IS 'Calls of this group that this trace has before.';

CREATE VIEW profiled_waits AS
-- empty without profiled_calls
WITH traced AS (
    SELECT count(DISTINCT rank) AS ranks FROM profile_windows
), world AS (
    SELECT max(world_size) AS ranks FROM ranks
), calls AS (
    -- a group that is not told is that of all ranks where there are only two, and gloo's. Others are kept if they end together, which proves it
    SELECT c.*, coalesce(c."group", 'default') AS group_,
        c.op NOT IN ('sendrecv', 'send', 'recv') AND (c."group" IS NOT NULL OR w.ranks = 2 AND t.ranks = 2 OR NOT c.on_device AND w.ranks = t.ranks) AS known
    FROM profiled_calls c, traced t, world w WHERE t.ranks > 1
), counted AS (
    SELECT group_, window_id, rank, count(*) AS calls FROM calls GROUP BY group_, window_id, rank
), alike AS (
    -- numbers mean the same call only where all traces of the group hold equally many
    SELECT group_, window_id, count(*) AS ranks FROM counted GROUP BY group_, window_id HAVING count(*) > 1 AND min(calls) = max(calls)
), matched AS (
    SELECT c.*, max(c.ts_ns + c.dur_ns) OVER same - min(c.ts_ns + c.dur_ns) OVER same <= 50000 AS together, min(c.dur_ns) OVER same AS shortest_ns, count(*) OVER same AS here, a.ranks, min(c.op) OVER same = max(c.op) OVER same AS one
    FROM calls c JOIN alike a USING (group_, window_id)
    WINDOW same AS (PARTITION BY c.group_, c.window_id, c.number)
)
SELECT rank, window_id, step, event_id, group_ AS "group", number, op, numel, on_device, ts_ns, dur_ns, dur_ns - shortest_ns AS waited_ns
FROM matched WHERE here = ranks AND one AND (known OR together);
COMMENT ON VIEW profiled_waits IS 'Collectives that the profiles of all traced ranks of a group hold. Each row says how long a rank was in one before the last rank came.';
COMMENT ON COLUMN profiled_waits.group IS 'Process group with its ranks.';
COMMENT ON COLUMN profiled_waits.number IS 'Which call of the group it is, from 0.';
COMMENT ON COLUMN profiled_waits.waited_ns IS 'Time in the call less the time that the last rank to come was in it.';

CREATE VIEW rank_lateness AS
-- empty without profiled_waits
WITH waits AS (
    SELECT rank, window_id, step, sum(waited_ns)::BIGINT AS waited_ns, sum(dur_ns)::BIGINT AS in_calls_ns, count(*) AS calls, bool_or(on_device) AS on_device
    FROM profiled_waits GROUP BY rank, window_id, step
), placed AS (
    SELECT w.*, p.ns, p.exposed_ns FROM waits w JOIN profiled_steps p ON p.rank = w.rank AND p.window_id = w.window_id AND p.step IS NOT DISTINCT FROM w.step
)
SELECT a.rank, a.window_id, a.step, any_value(a.ns) AS ns, any_value(a.calls) AS calls, any_value(a.in_calls_ns) AS in_calls_ns, any_value(a.waited_ns) AS waited_ns,
    -- what the others wait while they compute costs nothing
    greatest(0, least(median(b.waited_ns) - any_value(a.waited_ns), CASE WHEN any_value(a.on_device) THEN median(b.exposed_ns) ELSE any_value(a.ns) END))::BIGINT AS late_ns
FROM placed a JOIN placed b ON b.window_id = a.window_id AND b.step IS NOT DISTINCT FROM a.step AND b.rank <> a.rank
GROUP BY a.rank, a.window_id, a.step;
COMMENT ON VIEW rank_lateness IS 'How late each rank comes to the collectives of each profiled step. It is how much less the rank waits in them than the others.';
COMMENT ON COLUMN rank_lateness.ns IS 'Length of the step on this rank.';
COMMENT ON COLUMN rank_lateness.calls IS 'Collectives of the step that could be compared.';
COMMENT ON COLUMN rank_lateness.in_calls_ns IS 'Time in them.';
COMMENT ON COLUMN rank_lateness.waited_ns IS 'Of this, waiting for the rank that came last.';
COMMENT ON COLUMN rank_lateness.late_ns IS 'Median wait of the others less the wait of this one. It is no more than what they spent in communication alone.';
