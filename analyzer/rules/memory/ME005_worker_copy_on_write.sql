/*
code = "ME005"
name = "worker-copy-on-write"
severity = "warning"
phase = "data"
signal = "memory"
message = "By step {step} each of {workers} loader workers had copied memory that it shared with the main process. Each holds {each_mb} MB of its own, {value} GB in all."
fix = "Keep the samples in a tensor, a NumPy array or an Arrow table instead of Python lists, dicts and strings. Reading a Python object writes its reference count, and a written page is copied for each worker. Or lower num_workers."
seeks = ["system_samples: workers > 0 AND worker_private_bytes / workers >= $least_bytes"]
explains = ["oom-host", "memory-near-limit", "host-memory-leak"]
[params.least_bytes]
value = 100e6
unit = "bytes"
doc = "Memory of a worker's own: an interpreter and buffers of a few batches are smaller."
source = "convention: of this project, an interpreter with torch and the buffers of some batches takes about as much"
[params.share]
value = 0.25
doc = "A worker's own memory over what all other processes of the tree hold: what it can be a copy of."
source = "convention: of this project, a quarter: less is what every process writes to of its own"
[params.bytes_per_mb]
value = 1e6
unit = "bytes"
doc = "In a megabyte."
source = "arithmetic: a unit"
[params.bytes_per_gb]
value = 1e9
unit = "bytes"
doc = "In a gigabyte."
source = "arithmetic: a unit"
[needs]
tables = ["system_samples"]
columns = ["system_samples.worker_private_bytes"]
[doc]
what = "DataLoader workers hold much memory of their own, compared with what the main process holds. A forked worker begins with none of its own. Two measurements in a row show it."
why = "The data set is held once for each worker: a run that fits with one worker is killed with eight."
not_this = "Batches in shared memory, buffers, workers whose data set is an array, spawned workers. Workers that keep a cache of samples on purpose look the same, and take the same memory."
source = "Proportional set sizes from /proc; copy-on-write of reference counts is described in torch's own notes on DataLoader."
*/
WITH measured AS (
    SELECT time_ns, workers, worker_private_bytes / workers AS each_,
        pss_bytes - worker_private_bytes AS others
    FROM system_samples WHERE workers > 0 AND worker_private_bytes IS NOT NULL
), series AS (
    SELECT *, each_ >= $least_bytes AND each_ >= $share * others AS copied FROM measured
), held AS (
    SELECT *, copied AND coalesce(lead(copied) OVER (ORDER BY time_ns), false) AS stays FROM series
), most AS (
    SELECT arg_max(workers, each_) AS workers, max(each_) AS each_ FROM series WHERE copied
)
SELECT 0 AS rank,
    coalesce((SELECT min(s.step) FROM steps s WHERE s.time_ns >= h.time_ns), (SELECT max(step) FROM steps),
        0) AS step,
    m.workers, round(m.each_ / $bytes_per_mb)::BIGINT AS each_mb, m.workers * m.each_ / $bytes_per_gb AS value
FROM held h CROSS JOIN most m WHERE h.stays ORDER BY h.time_ns LIMIT 1
