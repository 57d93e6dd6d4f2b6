-- Where the time goes: of steps by their clocks, of profiled steps by operators and modules.

CREATE VIEW step_time AS
SELECT rank, step, step_ns, coalesce(data_wait_ns, 0) AS data_ns, coalesce(forward_ns, 0) AS forward_ns, coalesce(backward_ns, 0) AS backward_ns,
    coalesce(optimizer_ns, 0) AS optimizer_ns,
    greatest(step_ns - coalesce(data_wait_ns, 0) - coalesce(forward_ns, 0) - coalesce(backward_ns, 0) - coalesce(optimizer_ns, 0), 0) AS other_ns,
    recorder_ns
FROM step_series WHERE step_ns > 0;
COMMENT ON VIEW step_time IS 'Each step divided into parts that do not overlap and add up to step_ns: waiting for data, forward (evaluations included), backward, optimizer, and what runs between them.';
COMMENT ON COLUMN step_time.data_ns IS 'Waiting for the DataLoader.';
COMMENT ON COLUMN step_time.other_ns IS 'Code of the script and of the recorder between the phases.';
COMMENT ON COLUMN step_time.recorder_ns IS 'Of these parts together, what the recorder took.';

CREATE VIEW profiled_steps AS
WITH spans AS (
    SELECT rank, window_id, step, max(ts_ns + dur_ns) FILTER (cat <> 'recorder') - min(ts_ns) FILTER (cat <> 'recorder') AS span_ns,
        coalesce(sum(self_ns) FILTER (cat = 'recorder'), 0) AS recorder_ns,
        sum(dur_ns) FILTER (cat = 'kernel') AS kernel_ns,
        sum(dur_ns) FILTER (cat = 'gpu_memcpy' AND name LIKE 'Memcpy HtoD%') AS to_device_ns,
        sum(dur_ns) FILTER (cat = 'gpu_memcpy' AND name LIKE 'Memcpy HtoD%Pageable%') AS pageable_ns,
        count(*) FILTER (cat = 'gpu_memcpy' AND name LIKE 'Memcpy HtoD%') AS copies,
        sum(dur_ns) FILTER (cat IN ('cuda_runtime', 'cuda_driver') AND name LIKE '%Synchronize%') AS sync_ns,
        count(*) FILTER (cat IN ('cuda_runtime', 'cuda_driver') AND name LIKE '%Synchronize%') AS syncs,
        count(*) FILTER (cat = 'kernel') AS kernels
    FROM profiler_events WHERE ph = 'X' AND dur_ns >= 0 GROUP BY rank, window_id, step
)
SELECT rank, window_id, coalesce(step, 0) AS step, span_ns - recorder_ns AS ns, recorder_ns, kernels, coalesce(kernel_ns, 0) AS kernel_ns,
    coalesce(to_device_ns, 0) AS to_device_ns, coalesce(pageable_ns, 0) AS pageable_ns, copies, coalesce(sync_ns, 0) AS sync_ns, syncs
FROM spans WHERE span_ns > recorder_ns;
COMMENT ON VIEW profiled_steps IS 'One row for each step of a profiler window or of an imported trace.';
COMMENT ON COLUMN profiled_steps.ns IS 'From the first event of the step to the end of the last, without what the recorder did.';
COMMENT ON COLUMN profiled_steps.kernels IS 'Kernels that ran on a device.';
COMMENT ON COLUMN profiled_steps.kernel_ns IS 'Their time; kernels that ran side by side count each.';
COMMENT ON COLUMN profiled_steps.to_device_ns IS 'Copies from the host to a device.';
COMMENT ON COLUMN profiled_steps.pageable_ns IS 'Of these, copies from memory that is not pinned.';
COMMENT ON COLUMN profiled_steps.copies IS 'Number of copies from the host to a device.';
COMMENT ON COLUMN profiled_steps.sync_ns IS 'Time in which the host waited for a device.';
COMMENT ON COLUMN profiled_steps.syncs IS 'How often it waited.';

CREATE VIEW operator_times AS
SELECT e.rank, e.step, e.cat, e.name, e.phase, e.module_id, any_value(m.module) AS module, any_value(m.class_name) AS class_name, count(*) AS calls,
    sum(e.self_ns)::BIGINT AS self_ns, sum(e.self_ns) / any_value(p.ns) AS share, arg_max(e.source, e.self_ns) AS source
FROM profiler_events e
JOIN profiled_steps p ON p.rank = e.rank AND p.window_id = e.window_id AND p.step = e.step
LEFT JOIN modules m ON m.rank = e.rank AND m.module_id = e.module_id
WHERE e.self_ns IS NOT NULL AND e.cat IN ('cpu_op', 'module')
GROUP BY e.rank, e.step, e.cat, e.name, e.phase, e.module_id;
COMMENT ON VIEW operator_times IS 'Operators of profiled steps by exclusive time, with the module in whose forward they ran or whose backward they are; of cat module, the Python code of a forward itself.';
COMMENT ON COLUMN operator_times.calls IS 'Calls in the step.';
COMMENT ON COLUMN operator_times.self_ns IS 'Time without the events inside.';
COMMENT ON COLUMN operator_times.share IS 'Of the time of the step without the recorder.';
COMMENT ON COLUMN operator_times.source IS 'Function of the script in which its longest call was made; null without stacks.';
