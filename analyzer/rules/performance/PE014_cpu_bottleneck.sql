/*
code = "PE014"
name = "cpu-bottleneck"
severity = "warning"
phase = "step"
signal = "kernel"
message = "The processor sets the pace. In {value} of {steps} {span_} the device works less than 10 % of the time, the host more than 90 %. Such a step takes {step_ms} ms, {kernel_ms} ms of it on the device."
fix = "Move the work that is done in Python or on the CPU to the device or to loader workers. The view operator_times shows it. For the rest use torch.compile, CUDA graphs or larger batches."
seeks = ["profiled_steps: kernels > 0 AND kernels >= $seen * launches AND busy_ns < $device * ns"]
explains = ["low-device-use"]
[say.span_]
profiled_steps = "profiled steps"
whole_profiles = "whole profiles without steps"
[params.device]
value = 0.1
doc = "Share of the time that the device works."
source = "convention: the rule CPUBottleneck of SageMaker Debugger: GPU below 10 %"
[params.host]
value = 0.9
doc = "Share of the time in which the host neither waits for the device or for data nor starts the driver."
source = "convention: the rule CPUBottleneck of SageMaker Debugger: CPU above 90 %"
[params.seen]
value = 0.5
doc = "Kernels over launches, below which the work of the device is not in the trace: a graph that is captured runs none."
source = "convention: of this project, fewer than half of the launches have a kernel"
[params.half]
value = 0.5
unit = "of the steps"
doc = "Share of the steps that must be bound so."
source = "arithmetic: a majority is more than a half"
[needs]
tables = ["profiler_events"]
[doc]
what = "In more than half of the profiled steps the host is busy and the device is not."
why = "A faster device would change nothing."
not_this = "Runs without a device, runs that wait for their data. Profiles in which the driver starts or a graph is captured."
source = "Host busy above 90 %, device below 10 % over half of the time. Not verified on a GPU by this project, only on rows as a GPU's profile gives them."
*/
WITH waits AS (
    SELECT rank, step, data_ns / step_ns AS wait FROM step_time
), marked AS (
    SELECT p.*, busy_ns < $device * ns
        AND sync_ns + setup_ns + coalesce(w.wait, 0) * ns < (1 - $host) * ns AS bound
    FROM profiled_steps p
    LEFT JOIN waits w ON w.rank = p.rank AND w.step = p.step
    WHERE p.kernels > 0 AND p.kernels >= $seen * p.launches
)
SELECT rank, min(step) FILTER (bound) AS step, count(*) FILTER (bound) AS value, count(*) AS steps,
    in_ms(median(ns)) AS step_ms, in_ms(median(busy_ns)) AS kernel_ms,
    CASE WHEN count(step) = 0 THEN 'whole_profiles' ELSE 'profiled_steps' END AS span_
FROM marked GROUP BY rank HAVING count(*) FILTER (bound) > $half * count(*) ORDER BY step NULLS FIRST, rank
