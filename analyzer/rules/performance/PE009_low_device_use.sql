/*
code = "PE009"
name = "low-device-use"
severity = "warning"
phase = "step"
signal = "kernel"
message = "The device works {percent} % of the time of the profiled steps ({kernels} kernels of {kernel_us} µs in {step_ms} ms): it waits for the host to launch work{syncs_}. Up to {saving_ms} ms of each step could be saved."
fix = "Larger batches, torch.compile(mode='reduce-overhead') or CUDA graphs, fused optimizers, and fewer reads of results (.item()) between launches."
explains = []
[params.busy]
value = 0.5
doc = "Share of the time that the device works below which it is worth a word."
[params.wait]
value = 0.3
doc = "Share of waiting for data above which that is the reason."
[params.steps]
value = 2
unit = "steps"
doc = "Profiled steps to judge by."
[needs]
tables = ["profiler_events"]
[doc]
what = "Kernels take less than half of the time of most profiled steps, and the loader is not the reason."
why = "The device is paid for whether it works or not."
not_this = "Runs without a device, runs that wait for their data, a few profiled steps."
source = "Below 50 % is a threshold of other tools; kernels that run side by side count twice, so that use is overstated rather than understated. Not verified on a GPU by this project, only on rows as a GPU's profile gives them."
*/
WITH waits AS (
    SELECT rank, median(data_ns / step_ns) AS wait FROM step_time GROUP BY rank
), judged AS (
    SELECT rank, min(step) AS step, count(*) AS steps, median(kernel_ns / ns) AS busy, median(ns) AS ns, median(ns - kernel_ns) AS idle, median(kernels)::INT AS kernels,
        median(kernel_ns / kernels) AS kernel, median(syncs)::INT AS syncs
    FROM profiled_steps WHERE kernels > 0 GROUP BY rank
)
SELECT j.rank, j.step, j.busy AS value, round(100 * j.busy)::INT AS percent, j.kernels, round(j.kernel / 1e3, 1) AS kernel_us, round(j.ns / 1e6, 1) AS step_ms,
    CASE WHEN j.syncs > 5 THEN ', and the host waits for the device ' || j.syncs || ' times a step' ELSE '' END AS syncs_, round(j.idle / 1e6, 1) AS saving_ms
FROM judged j LEFT JOIN waits w ON w.rank = j.rank
WHERE j.steps >= $steps AND j.busy < $busy AND coalesce(w.wait, 0) < $wait ORDER BY j.step, j.rank
