/*
code = "PE017"
name = "exposed-communication"
severity = "warning"
phase = "step"
signal = "exposed_ns"
message = "For {percent} % of the time of {span_} the device does nothing but communicate ({exposed_ms} of {step_ms} ms{ranks_}). Computation hides {hidden} % of the communication."
fix = "Let gradients travel while others are computed: smaller buckets in DDP (bucket_cap_mb), prefetching in FSDP, no forced order of streams. Else communicate less: accumulate gradients under no_sync(), compress them (DDP's communication hooks), take larger batches."
seeks = ["profiled_steps: communication_ns > 0"]
explains = []
[say.span_]
profiled_steps = "the profiled steps"
whole_profile = "the whole profile, in which no step is marked"
[say.ranks_]
waits_least = " on rank {rank}, which waits least of {ranks} ranks"
may_wait = ", in which it may wait for another rank"
[params.share]
value = 0.1
doc = "Share of the time from which it is worth a word."
source = "convention: torch_tb_profiler recommends changes where more than 10 % of the step are communication beside which no kernel runs"
[params.steps]
value = 2
unit = "steps"
doc = "Profiled steps that are needed; a single one may be the first, in which groups are made."
source = "arithmetic"
[needs]
tables = ["profiler_events"]
[doc]
what = "Kernels of communication run alone, beside no other kernel and no copy. They do so in a large share of most profiled steps, or of a profile without steps."
why = "A device that only communicates computes nothing, and the step is longer by that time."
not_this = "Communication beside computation. Waiting for a late rank where the profiles of several ranks are there (the rank that waits least is judged). A single profiled step. Collectives of gloo, which run on the host."
source = "Time with communication alone, as an interval union, over the length of the step. Checked on public profiles of NVIDIA and AMD devices."
*/
WITH judged AS (
    SELECT rank, min(step) AS step, bool_or(step IS NULL) AS whole, count(*) AS steps,
        median(exposed_ns / ns) AS share, median(exposed_ns) AS exposed_ns, median(ns) AS ns,
        1 - sum(exposed_ns) / sum(communication_ns) AS hidden
    FROM profiled_steps WHERE communication_ns > 0 GROUP BY rank
), least_ AS (
    -- who waits for a late rank communicates alone meanwhile, and the late one does not
    SELECT *, count(*) OVER () AS ranks FROM judged WHERE whole OR steps >= $steps
    QUALIFY row_number() OVER (ORDER BY share, rank) = 1
)
SELECT rank, step, share AS value, percent_of(share) AS percent,
    in_ms(exposed_ns) AS exposed_ms, in_ms(ns) AS step_ms,
    percent_of(hidden) AS hidden, ranks, CASE WHEN ranks > 1 THEN 'waits_least' ELSE 'may_wait' END AS ranks_,
    CASE WHEN whole THEN 'whole_profile' ELSE 'profiled_steps' END AS span_
FROM least_ WHERE share > $share
