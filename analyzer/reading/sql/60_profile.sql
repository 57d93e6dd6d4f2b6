-- Where the time goes: of steps by their clocks, of profiled steps by operators and modules.

CREATE VIEW step_time AS
-- empty without steps
SELECT rank, step, step_ns, coalesce(data_wait_ns, 0) AS data_ns, coalesce(forward_ns, 0) AS forward_ns, coalesce(backward_ns, 0) AS backward_ns,
    coalesce(optimizer_ns, 0) AS optimizer_ns,
    greatest(step_ns - coalesce(data_wait_ns, 0) - coalesce(forward_ns, 0) - coalesce(backward_ns, 0) - coalesce(optimizer_ns, 0), 0) AS other_ns,
    recorder_ns
FROM step_series WHERE step_ns > 0;
COMMENT ON VIEW step_time IS 'Each step divided into parts that do not overlap and add up to step_ns. They are waiting for data, forward (evaluations included), backward, optimizer, and what runs between them.';
COMMENT ON COLUMN step_time.data_ns IS 'Waiting for the DataLoader.';
COMMENT ON COLUMN step_time.other_ns IS 'Code of the script and of the recorder between the phases.';
COMMENT ON COLUMN step_time.recorder_ns IS 'Of these parts together, what the recorder took.';

CREATE VIEW device_events AS
-- empty without profiler_events: lower(cat) IN ('kernel', 'gpu_memcpy', 'gpu_memset', 'memcpy', 'memset')
WITH launches AS (
    SELECT rank, window_id, correlation, min(step) AS step FROM profiler_events
    WHERE lower(cat) IN ('cuda_runtime', 'cuda_driver', 'runtime') AND correlation > 0 GROUP BY rank, window_id, correlation
), found AS (
    SELECT e.rank, e.window_id, event_id, e.step AS ran_in, l.step AS launched_in, l.correlation IS NOT NULL AS known,
        coalesce(device::VARCHAR, pid) AS device, coalesce(stream::VARCHAR, tid) AS stream,
        CASE
            WHEN lower(cat) = 'kernel' AND communicates(name) THEN 'communication'
            WHEN lower(cat) = 'kernel' THEN 'kernel'
            WHEN lower(cat) IN ('gpu_memset', 'memset') THEN 'set'
            ELSE 'copy'
        END AS kind, name, ts_ns, dur_ns, e.correlation, external_id
    FROM profiler_events e LEFT JOIN launches l ON l.rank = e.rank AND l.window_id = e.window_id AND l.correlation = e.correlation
    WHERE ph = 'X' AND dur_ns >= 0 AND lower(cat) IN ('kernel', 'gpu_memcpy', 'gpu_memset', 'memcpy', 'memset')
)
SELECT rank, window_id, event_id,
    CASE
        WHEN known THEN launched_in
        -- what a stream does ahead of all that was launched while the profiler looked was launched before
        WHEN ts_ns < min(CASE WHEN known THEN ts_ns END) OVER (PARTITION BY rank, window_id, device, stream) THEN NULL
        ELSE ran_in
    END AS step, device, stream, kind, name, ts_ns, dur_ns, correlation, external_id
FROM found;
COMMENT ON VIEW device_events IS 'Kernels and copies that ran on a device, of recorded windows and of imported traces.';
COMMENT ON COLUMN device_events.step IS 'Step in which the host launched it, for it may run a step later. Where no such call is known, the step in which it ran. Null if it was launched before the profile began.';
COMMENT ON COLUMN device_events.kind IS 'kernel, communication (kernels of NCCL, RCCL, NVSHMEM, DeepEP and of reductions by hand), copy or set.';

CREATE VIEW profile_windows AS
-- empty without profiler_events
SELECT rank, window_id, bool_or(step IS NOT NULL) AS stepped FROM profiler_events GROUP BY rank, window_id;
COMMENT ON VIEW profile_windows IS 'Windows of profiling. `stepped` is false for a trace in which no step is marked. It is judged as a whole.';

CREATE VIEW device_use AS
-- empty without device_events
WITH told AS (
    SELECT d.*, d.ts_ns + d.dur_ns AS end_ns FROM device_events d JOIN profile_windows USING (rank, window_id)
    WHERE d.step IS NOT NULL OR NOT stepped
), ends AS (
    SELECT rank, window_id, step, min(ts_ns) AS ts_ns, max(end_ns) AS end_ns FROM told GROUP BY rank, window_id, step
), ahead AS (
    -- what was launched before the first step, and still runs
    SELECT d.rank, d.window_id, max(d.ts_ns + d.dur_ns) AS end_ns FROM device_events d
    JOIN (SELECT rank, window_id, min(ts_ns) AS ts_ns FROM ends GROUP BY rank, window_id) f ON f.rank = d.rank AND f.window_id = d.window_id
    WHERE d.step IS NULL AND d.ts_ns < f.ts_ns GROUP BY d.rank, d.window_id
), floors AS (
    -- the work of a step begins when that of the step before has ended
    SELECT e.rank, e.window_id, step, greatest(a.end_ns, max(e.end_ns) OVER (
        PARTITION BY e.rank, e.window_id ORDER BY step ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)) AS floor_ns
    FROM ends e LEFT JOIN ahead a ON a.rank = e.rank AND a.window_id = e.window_id
), beside AS (
    -- the latest end of what began before: what lies before it has been counted
    SELECT t.* EXCLUDE (ts_ns), greatest(ts_ns, coalesce(floor_ns, ts_ns)) AS ts_ns, floor_ns, max(end_ns) OVER earlier AS before,
        max(CASE WHEN kind = 'communication' THEN end_ns END) OVER earlier AS before_communication,
        max(CASE WHEN kind <> 'communication' THEN end_ns END) OVER earlier AS before_others
    FROM told t JOIN floors f ON f.rank = t.rank AND f.window_id = t.window_id AND f.step IS NOT DISTINCT FROM t.step
    WINDOW earlier AS (
        PARTITION BY t.rank, t.window_id, t.step ORDER BY t.ts_ns, event_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
), parts AS (
    SELECT rank, window_id, step, count(*) FILTER (kind IN ('kernel', 'communication')) AS kernels,
        sum(dur_ns) FILTER (kind IN ('kernel', 'communication')) AS kernel_ns,
        sum(greatest(end_ns - greatest(ts_ns, coalesce(before, ts_ns)), 0)) AS busy_ns,
        sum(greatest(end_ns - greatest(ts_ns, coalesce(before_communication, ts_ns)), 0)) FILTER (kind = 'communication') AS communication_ns,
        sum(greatest(end_ns - greatest(ts_ns, coalesce(before_others, ts_ns)), 0)) FILTER (kind <> 'communication') AS others_ns,
        min(ts_ns) AS from_ns, max(end_ns) AS until_ns, any_value(floor_ns) AS floor_ns
    FROM beside GROUP BY rank, window_id, step
)
SELECT rank, window_id, step, kernels, coalesce(kernel_ns, 0)::BIGINT AS kernel_ns, busy_ns::BIGINT AS busy_ns,
    coalesce(communication_ns, 0)::BIGINT AS communication_ns, (busy_ns - coalesce(others_ns, 0))::BIGINT AS exposed_ns,
    from_ns, until_ns, floor_ns
FROM parts;
COMMENT ON VIEW device_use IS 'How long devices worked in each profiled step, or in the whole of a trace without steps (step is null).';
COMMENT ON COLUMN device_use.kernels IS 'Kernels that ran on a device.';
COMMENT ON COLUMN device_use.kernel_ns IS 'Their time; kernels that ran side by side count each.';
COMMENT ON COLUMN device_use.busy_ns IS 'Time in which at least one kernel or copy ran.';
COMMENT ON COLUMN device_use.communication_ns IS 'Time in which at least one kernel of communication ran.';
COMMENT ON COLUMN device_use.exposed_ns IS 'Time in which nothing but communication ran.';
COMMENT ON COLUMN device_use.from_ns IS 'When the device came to the work of this step.';
COMMENT ON COLUMN device_use.until_ns IS 'When it had done it.';
COMMENT ON COLUMN device_use.floor_ns IS 'When it had done that of the steps before; null for the first.';

CREATE VIEW profiled_steps AS
-- empty without profiler_events
WITH spans AS (
    SELECT rank, window_id, step, min(ts_ns) FILTER (on_host) AS from_ns, max(ts_ns + dur_ns) FILTER (on_host) AS until_ns,
        coalesce(sum(self_ns) FILTER (cat = 'recorder'), 0) AS recorder_ns,
        sum(dur_ns) FILTER (lower(cat) IN ('gpu_memcpy', 'memcpy') AND regexp_matches(name, '^(Memcpy HtoD|CopyHostToDevice)')) AS to_device_ns,
        sum(dur_ns) FILTER (lower(cat) IN ('gpu_memcpy', 'memcpy') AND name LIKE 'Memcpy HtoD%Pageable%') AS pageable_ns,
        count(*) FILTER (lower(cat) IN ('gpu_memcpy', 'memcpy') AND regexp_matches(name, '^(Memcpy HtoD|CopyHostToDevice)')) AS copies,
        sum(dur_ns) FILTER (lower(cat) IN ('cuda_runtime', 'cuda_driver', 'runtime') AND name LIKE '%Synchronize%') AS sync_ns,
        count(*) FILTER (lower(cat) IN ('cuda_runtime', 'cuda_driver', 'runtime') AND name LIKE '%Synchronize%') AS syncs,
        count(*) FILTER (lower(cat) IN ('cuda_runtime', 'cuda_driver', 'runtime') AND launches_kernel(name)) AS launches,
        sum(dur_ns) FILTER (lower(cat) IN ('cuda_runtime', 'cuda_driver', 'runtime') AND sets_up(name)) AS setup_ns
    FROM (SELECT *, cat <> 'recorder' AND lower(cat) NOT IN ('kernel', 'gpu_memcpy', 'gpu_memset', 'memcpy', 'memset', 'gpu_user_annotation') AS on_host FROM profiler_events)
    JOIN profile_windows USING (rank, window_id)
    -- 'Trace' is the profiler itself, from its start to its stop
    WHERE ph = 'X' AND dur_ns >= 0 AND cat IS DISTINCT FROM 'Trace' AND (step IS NOT NULL OR NOT stepped) GROUP BY rank, window_id, step
), lengths AS (
    -- the host may run ahead of the device: a step is over when both have done its work, and begins when the device has done that before
    SELECT s.rank, s.window_id, s.step, recorder_ns,
        greatest(coalesce(s.until_ns, u.until_ns), coalesce(u.until_ns, s.until_ns))
            - greatest(least(coalesce(s.from_ns, u.from_ns), coalesce(u.from_ns, s.from_ns)), coalesce(u.floor_ns, s.from_ns, u.from_ns)) AS span_ns,
        s.until_ns - s.from_ns AS host_ns, coalesce(u.kernels, 0) AS kernels, coalesce(u.kernel_ns, 0) AS kernel_ns, coalesce(u.busy_ns, 0) AS busy_ns,
        coalesce(u.communication_ns, 0) AS communication_ns, coalesce(u.exposed_ns, 0) AS exposed_ns, coalesce(to_device_ns, 0) AS to_device_ns,
        coalesce(pageable_ns, 0) AS pageable_ns, copies, coalesce(sync_ns, 0) AS sync_ns, syncs, launches, coalesce(setup_ns, 0)::BIGINT AS setup_ns
    FROM spans s LEFT JOIN device_use u ON u.rank = s.rank AND u.window_id = s.window_id AND u.step IS NOT DISTINCT FROM s.step
)
SELECT rank, window_id, step, span_ns - recorder_ns AS ns, recorder_ns, kernels, kernel_ns, busy_ns, communication_ns, exposed_ns,
    to_device_ns, pageable_ns, copies, sync_ns, syncs, launches, setup_ns, host_ns - recorder_ns AS host_ns
FROM lengths WHERE span_ns > recorder_ns;
COMMENT ON VIEW profiled_steps IS 'One row for each step of a profiler window or of an imported trace. A trace in which no step is marked has one row for all of it, whose step is null.';
COMMENT ON COLUMN profiled_steps.ns IS 'From the first event of the step, or the end of the device''s work of the step before, to the end of the last event. The recorder''s own time is left out.';
COMMENT ON COLUMN profiled_steps.kernels IS 'Kernels that ran on a device.';
COMMENT ON COLUMN profiled_steps.kernel_ns IS 'Their time; kernels that ran side by side count each.';
COMMENT ON COLUMN profiled_steps.busy_ns IS 'Time in which at least one kernel or copy ran.';
COMMENT ON COLUMN profiled_steps.communication_ns IS 'Time in which at least one kernel of communication ran.';
COMMENT ON COLUMN profiled_steps.exposed_ns IS 'Time in which nothing but communication ran.';
COMMENT ON COLUMN profiled_steps.to_device_ns IS 'Copies from the host to a device.';
COMMENT ON COLUMN profiled_steps.pageable_ns IS 'Of these, copies from memory that is not pinned.';
COMMENT ON COLUMN profiled_steps.copies IS 'Number of copies from the host to a device.';
COMMENT ON COLUMN profiled_steps.sync_ns IS 'Time in which the host waited for a device.';
COMMENT ON COLUMN profiled_steps.syncs IS 'How often it waited.';
COMMENT ON COLUMN profiled_steps.launches IS 'Calls that launch a kernel. Far more than kernels: they were captured into a graph, or the trace holds no work of the device.';
COMMENT ON COLUMN profiled_steps.setup_ns IS 'Time in calls of the runtime that neither launch nor copy nor wait. Examples are the start of the driver or memory asked of it.';
COMMENT ON COLUMN profiled_steps.host_ns IS 'From the first to the last event of the host in it, without what the recorder did; null where the host has none.';

CREATE VIEW device_gaps AS
-- empty without device_events
WITH ordered AS (
    SELECT d.*, max(ts_ns + dur_ns) OVER (
        PARTITION BY rank, window_id ORDER BY ts_ns, event_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS idle_from
    FROM device_events d
), launches AS (
    SELECT rank, window_id, correlation, min(ts_ns) AS launched_ns FROM profiler_events
    WHERE lower(cat) IN ('cuda_runtime', 'cuda_driver', 'runtime') AND correlation IS NOT NULL GROUP BY rank, window_id, correlation
)
SELECT o.rank, o.window_id, o.step, o.event_id, o.idle_from AS from_ns, o.ts_ns AS until_ns, o.ts_ns - o.idle_from AS ns, o.name AS next_name,
    l.launched_ns, CASE WHEN l.launched_ns IS NULL THEN NULL WHEN l.launched_ns >= o.idle_from THEN 'launch' ELSE 'queue' END AS waits_for
FROM ordered o LEFT JOIN launches l ON l.rank = o.rank AND l.window_id = o.window_id AND l.correlation = o.correlation
WHERE o.ts_ns > o.idle_from;
COMMENT ON VIEW device_gaps IS 'Stretches in which no kernel and no copy ran, between the first and the last of a window.';
COMMENT ON COLUMN device_gaps.from_ns IS 'When the device fell idle.';
COMMENT ON COLUMN device_gaps.until_ns IS 'When something ran again.';
COMMENT ON COLUMN device_gaps.ns IS 'How long nothing ran.';
COMMENT ON COLUMN device_gaps.next_name IS 'What ended it.';
COMMENT ON COLUMN device_gaps.launched_ns IS 'When the host launched that.';
COMMENT ON COLUMN device_gaps.waits_for IS 'launch: the host had not launched it when the device fell idle; queue: it had, and another reason held it up; null without the call that launched it.';

CREATE VIEW host_in_gaps AS
-- empty without device_gaps
WITH longest AS (
    SELECT * FROM device_gaps QUALIFY row_number() OVER (PARTITION BY rank ORDER BY ns DESC, event_id) <= 40
), during AS (
    SELECT g.rank, g.window_id, g.event_id, e.name, e.dur_ns,
        (least(e.ts_ns + e.dur_ns, g.until_ns) - greatest(e.ts_ns, g.from_ns)) / g.ns AS share
    FROM longest g
    JOIN profiler_events e ON e.rank = g.rank AND e.window_id = g.window_id AND e.ts_ns < g.until_ns AND e.ts_ns + e.dur_ns > g.from_ns
    WHERE e.ph = 'X' AND lower(e.cat) IN ('cpu_op', 'operator', 'user_annotation', 'python_function', 'cuda_runtime', 'cuda_driver', 'runtime', 'module')
        AND NOT starts_with(e.name, 'ProfilerStep#')
), named AS (
    SELECT rank, window_id, event_id, arg_min(name, dur_ns) AS host FROM during WHERE share >= 0.5 GROUP BY rank, window_id, event_id
)
SELECT l.*, n.host FROM longest l LEFT JOIN named n USING (rank, window_id, event_id);
COMMENT ON VIEW host_in_gaps IS 'The longest of device_gaps of each rank, with what the host did meanwhile.';
COMMENT ON COLUMN host_in_gaps.host IS 'The shortest operator, annotation, Python function or runtime call that fills at least half of the pause; null where none does.';

CREATE VIEW kernel_times AS
-- empty without device_events
WITH operators AS (
    SELECT rank, window_id, external_id, arg_min(name, dur_ns) AS operator FROM profiler_events
    WHERE cat = 'cpu_op' AND external_id > 0 GROUP BY rank, window_id, external_id
), launches AS (
    SELECT rank, window_id, correlation, any_value(external_id) AS external_id FROM profiler_events
    WHERE lower(cat) IN ('cuda_runtime', 'cuda_driver', 'runtime') AND correlation IS NOT NULL GROUP BY rank, window_id, correlation
), told AS (
    SELECT d.*, o.operator FROM device_events d JOIN profile_windows w USING (rank, window_id)
    LEFT JOIN launches l USING (rank, window_id, correlation)
    LEFT JOIN operators o ON o.rank = d.rank AND o.window_id = d.window_id AND o.external_id = coalesce(nullif(d.external_id, 0), l.external_id)
    WHERE d.step IS NOT NULL OR NOT w.stepped
)
SELECT rank, kind, name, mode(operator) AS operator, count(*) AS calls, sum(dur_ns)::BIGINT AS ns, (median(dur_ns))::BIGINT AS median_ns,
    max(dur_ns) AS longest_ns, sum(dur_ns) / sum(sum(dur_ns)) OVER (PARTITION BY rank) AS share
FROM told GROUP BY rank, kind, name;
COMMENT ON VIEW kernel_times IS 'Kernels and copies of the profiled steps by name, with the operator that launched most of them.';
COMMENT ON COLUMN kernel_times.median_ns IS 'Median length of its runs.';
COMMENT ON COLUMN kernel_times.longest_ns IS 'Length of its longest run.';
COMMENT ON COLUMN kernel_times.share IS 'Of the time of all kernels and copies of the rank.';

CREATE VIEW operator_times AS
-- empty without profiled_steps
SELECT e.rank, e.step, e.cat, e.name, e.phase, e.module_id, any_value(m.module) AS module, any_value(m.class_name) AS class_name, count(*) AS calls,
    sum(e.self_ns)::BIGINT AS self_ns, sum(e.self_ns) / any_value(p.ns) AS share, arg_max(e.source, e.self_ns) AS source
FROM profiler_events e
JOIN profiled_steps p ON p.rank = e.rank AND p.window_id = e.window_id AND p.step = e.step
LEFT JOIN modules m ON m.rank = e.rank AND m.module_id = e.module_id
WHERE e.self_ns IS NOT NULL AND e.cat IN ('cpu_op', 'module')
GROUP BY e.rank, e.step, e.cat, e.name, e.phase, e.module_id
UNION ALL
SELECT o.rank, o.step, 'cpu_op', o.name, o.phase, NULL, o.module, regexp_extract(o.module, '([^.]*?)(_[0-9]+)?$', 1), o.calls, o.self_ns,
    o.self_ns / p.ns, NULL
FROM profiled_operators o
JOIN profiled_steps p ON p.rank = o.rank AND p.window_id = o.window_id AND p.step IS NOT DISTINCT FROM o.step;
COMMENT ON VIEW operator_times IS 'Operators of profiled steps by exclusive time, with the module in whose forward they ran or whose backward they are. Rows of cat module are the Python code of a forward itself.';
COMMENT ON COLUMN operator_times.calls IS 'Calls in the step.';
COMMENT ON COLUMN operator_times.self_ns IS 'Time without the events inside.';
COMMENT ON COLUMN operator_times.share IS 'Of the time of the step without the recorder.';
COMMENT ON COLUMN operator_times.source IS 'Function of the script in which its longest call was made; null without stacks.';
