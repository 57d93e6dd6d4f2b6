/*
code = "PE008"
name = "host-to-device-copy-bound"
severity = "warning"
phase = "data"
signal = "gpu_memcpy"
message = "Copies from the host to the device take {percent} % of {span_}: {copy_ms} of {step_ms} ms in {copies} copies. {pageable} % of that comes from memory that is not pinned."
fix = "DataLoader(pin_memory=True) and tensor.to(device, non_blocking=True). Put small tensors into one copy, make constants on the device, and convert to the smaller dtype before the copy."
seeks = ["profiled_steps: kernels > 0 AND to_device_ns > 0"]
explains = ["low-device-use"]
[say.span_]
profiled_steps = "the profiled steps"
whole_profile = "the whole profile, in which no step is marked"
[params.share]
value = 0.15
doc = "Share of the step from which it is worth a word."
source = "convention: of this project, about three times the 5 % from which other tools speak of exposed copies"
[params.ns_per_s]
value = 1e9
unit = "ns"
doc = "In a second."
source = "arithmetic: a unit"
[needs]
tables = ["profiler_events"]
[doc]
what = "Copies to the device take a large share of most profiled steps."
why = "A copy from pageable memory goes through a buffer of the driver and holds up the host. A pinned one runs beside the kernels."
not_this = "Runs without a device, a first copy of the model or the data set."
source = "Exposed copies above 5 % of the time, or ten of them, are a threshold of other tools. Not verified on a GPU by this project, only on rows as a GPU's profile gives them."
*/
WITH judged AS (
    SELECT rank, min(step) AS step, median(to_device_ns / ns) AS share, median(to_device_ns) AS copy_ns,
        median(ns) AS ns, median(copies)::INT AS copies,
        sum(pageable_ns) / nullif(sum(to_device_ns), 0) AS pageable
    FROM profiled_steps WHERE kernels > 0 GROUP BY rank
)
SELECT rank, step, copy_ns / $ns_per_s AS value, percent_of(share) AS percent,
    in_ms(copy_ns) AS copy_ms, in_ms(ns) AS step_ms, copies,
    percent_of(coalesce(pageable, 0)) AS pageable,
    CASE WHEN step IS NULL THEN 'whole_profile' ELSE 'profiled_steps' END AS span_
FROM judged WHERE share > $share ORDER BY step NULLS FIRST, rank
