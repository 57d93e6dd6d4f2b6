/*
code = "PE009"
name = "low-device-use"
severity = "warning"
phase = "step"
signal = "kernel"
message = "The device works {percent} % of the time of {span_} ({kernels} kernels of {kernel_us} µs in {step_ms} ms): it waits for {waits_}{syncs_}{host_}. Up to {saving_ms} ms of {step_ms} ms could be saved."
fix = "Larger batches, torch.compile(mode='reduce-overhead') or CUDA graphs, fused optimizers, and fewer reads of results (.item()) between launches. Where the work had been launched, look at what it waits for: other streams, other ranks, copies."
seeks = ["profiled_steps: kernels > 0 AND kernels >= $seen * launches AND busy_ns / ns < $busy"]
explains = []
[say.span_]
profiled_steps = "the profiled steps"
whole_profile = "the whole profile, in which no step is marked"
[say.waits_]
host = "the host"
something_launched_before = "something else, for what ends most of the longest pauses had been launched before they began"
[say.syncs_]
waits_for_the_device = ", which itself waits for the device {syncs} times"
[say.host_]
operators = "; in the longest pauses that is in {hosts:names}"
operators_and_other_code = "; in the longest pauses that is in {hosts:names}, code outside of operators"
other_code = "; in the longest pauses that is in code outside of operators"
[params.busy]
value = 0.5
doc = "Share of the time that the device works below which it is worth a word."
source = "convention: below 50 % is a threshold of other tools"
[params.wait]
value = 0.3
doc = "Share of waiting for data above which that is the reason."
source = "convention: of this project, a third of the time"
[params.seen]
value = 0.5
doc = "Kernels over launches, below which the work of the device is not in the trace: a graph that is captured runs none."
source = "convention: of this project, fewer than half of the launches have a kernel"
[params.setup]
value = 0.5
doc = "Share of the time in which the driver starts or gives memory. From it on the profile is one of the start."
source = "convention: of this project, more than half of the time"
[params.pauses]
value = 3
unit = "pauses"
doc = "Pauses that a sentence names."
source = "convention: of this project, more are not read"
[params.ns_per_us]
value = 1e3
unit = "ns"
doc = "In a microsecond."
source = "arithmetic: a unit"
[params.syncs]
value = 5
unit = "waits"
doc = "Waits in a step from which they are said."
source = "convention: of this project, a few are in any loop"
[needs]
tables = ["profiler_events"]
[doc]
what = "Kernels and copies run in less than half the time of most profiled steps, or of a profile without steps. The loader is not the reason."
why = "The device is paid for whether it works or not."
not_this = "Runs without a device, runs that wait for their data. Profiles in which the driver starts or a graph is captured."
source = "Below 50 % is a threshold of other tools. Time in which at least one kernel or copy ran; checked on public traces of NVIDIA and AMD devices."
*/
WITH waits AS (
    SELECT rank, median(data_ns / step_ns) AS wait FROM step_time GROUP BY rank
), judged AS (
    SELECT rank, min(step) AS step, median(busy_ns / ns) AS busy, median(ns) AS ns,
        median(ns - busy_ns) AS idle, median(kernels)::INT AS kernels,
        median(kernel_ns / kernels) AS kernel, median(syncs)::INT AS syncs
    FROM profiled_steps
    WHERE kernels > 0 AND kernels >= $seen * launches AND setup_ns < $setup * ns GROUP BY rank
), pauses AS (
    SELECT rank, host, sum(ns) AS ns FROM host_in_gaps GROUP BY rank, host
    QUALIFY row_number() OVER (PARTITION BY rank ORDER BY sum(ns) DESC, host) <= $pauses
), hosts AS (
    SELECT rank, list(host ORDER BY ns DESC, host) FILTER (host IS NOT NULL) AS hosts,
        bool_or(host IS NULL) AS other_code
    FROM pauses GROUP BY rank
), queued AS (
    SELECT rank, sum(CASE WHEN waits_for = 'queue' THEN ns ELSE -ns END) > 0 AS queued
    FROM host_in_gaps GROUP BY rank
)
SELECT j.rank, step, j.busy AS value, percent_of(j.busy) AS percent, j.kernels,
    round(j.kernel / $ns_per_us, 1) AS kernel_us, in_ms(j.ns) AS step_ms,
    CASE WHEN step IS NULL THEN 'whole_profile' ELSE 'profiled_steps' END AS span_,
    CASE WHEN q.queued THEN 'something_launched_before' ELSE 'host' END AS waits_,
    CASE
        WHEN q.queued THEN NULL
        WHEN h.hosts IS NULL THEN CASE WHEN h.other_code THEN 'other_code' END
        WHEN h.other_code THEN 'operators_and_other_code'
        ELSE 'operators'
        END AS host_,
    h.hosts, CASE WHEN j.syncs > $syncs AND waits_ = 'host' THEN 'waits_for_the_device' END AS syncs_,
    j.syncs,
    in_ms(j.idle) AS saving_ms
FROM judged j LEFT JOIN waits w ON w.rank = j.rank LEFT JOIN hosts h ON h.rank = j.rank
LEFT JOIN queued q ON q.rank = j.rank
WHERE j.busy < $busy AND coalesce(w.wait, 0) < $wait ORDER BY step NULLS FIRST, j.rank
