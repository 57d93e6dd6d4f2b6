/*
code = "ME008"
name = "memory-near-limit"
severity = "warning"
is = ["memory-short"]
phase = "exit"
signal = "memory"
message = "At step {step} {used_gb} GB of {limit_gb} GB of memory were in use ({value}), and stayed so for {samples} samples. The script's processes held {rss_gb} GB."
fix = "Lower the batch size, the number of loader workers or their prefetch_factor. Or recompute activations (torch.utils.checkpoint), or ask for more memory. The next larger batch may end the run."
seeks = ["system_samples: memory_used_bytes > $share * memory_limit_bytes AND rss_bytes > $own * memory_used_bytes"]
explains = []
[params.share]
value = 0.9
doc = "Of the limit in use, without the page cache."
source = "convention: the alert NodeMemoryHighUtilization of the Prometheus node exporter is at 90 %"
[params.samples]
value = 3
unit = "samples"
doc = "Samples in a row, one a second."
source = "convention: of this project, one sample may be a peak"
[params.own]
value = 0.5
doc = "Share of the memory in use that the script's processes hold: on a shared host others may fill it."
source = "convention: of this project, the script holds more than all others"
[needs]
tables = ["system_samples"]
columns = ["system_samples.memory_used_bytes", "system_samples.memory_limit_bytes"]
[doc]
what = "For some seconds the memory in use is beyond nine tenths of the control group's limit, or of the host's. This run uses most of it."
why = "One larger batch, one evaluation or one checkpoint more, and the kernel ends the run without a word."
not_this = "Page cache, which the kernel gives back; a host that others fill; a short peak."
source = "Samples of the supervisor; 90 % is where cluster guides put the warning."
*/
WITH high AS (
    SELECT time_ns, memory_used_bytes AS used, memory_limit_bytes AS limit_, rss_bytes,
        memory_used_bytes / memory_limit_bytes::DOUBLE AS share,
        memory_used_bytes > $share * memory_limit_bytes AND rss_bytes > $own * memory_used_bytes AS is_high
    FROM system_samples WHERE memory_limit_bytes > 0
), bouts AS (
    SELECT *,
        row_number() OVER (ORDER BY time_ns) - row_number() OVER (PARTITION BY is_high
            ORDER BY time_ns) AS bout
    FROM high
), long_ AS (
    SELECT min(time_ns) AS time_ns, count(*) AS samples, arg_max(used, share) AS used,
        arg_max(limit_, share) AS limit_, arg_max(rss_bytes, share) AS rss, max(share) AS share
    FROM bouts WHERE is_high GROUP BY bout HAVING count(*) >= $samples
)
SELECT 0 AS rank,
    coalesce((SELECT min(s.step) FROM steps s WHERE s.time_ns >= l.time_ns), (SELECT max(step) FROM steps),
        0) AS step,
    l.share AS value, l.samples, in_gb(l.used) AS used_gb, in_gb(l.limit_) AS limit_gb,
        in_gb(l.rss) AS rss_gb
FROM long_ l ORDER BY l.time_ns LIMIT 1
