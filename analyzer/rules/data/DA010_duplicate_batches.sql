/*
code = "DA010"
name = "duplicate-batches"
severity = "error"
phase = "data"
signal = "fingerprint"
message = "At step {step} the loader hands out a batch that it had handed out at step {earlier}{where_}; {value} of {batches} batches are copies ({workers} workers)."
fix = "Split an IterableDataset over the workers with get_worker_info(), and seed each worker's own random generator; take all batches from one iterator of the loader, not from next(iter(loader))."
explains = ["overfit"]
[params.least]
value = 2
unit = "batches"
doc = "Copies in one epoch."
[params.share]
value = 0.1
doc = "Share of the epoch."
[needs]
tables = ["batches"]
columns = ["batches.fingerprint", "batches.epoch"]
[doc]
what = "The same content twice within one epoch of a training loader, or in one that is begun anew for every batch."
why = "Samples count several times, and others are missing or the epoch is longer than it seems."
not_this = "One batch for a whole epoch (a warning: many do that to see whether a model learns at all), a constant field, one accidental copy, a data set smaller than a few batches, data without a loader."
source = "Equality of fingerprints."
*/
WITH fields AS (
    SELECT b.rank, b.loader_id, b.batch_index, max(b.batch_index) OVER (PARTITION BY b.rank, b.loader_id) = 0 AND b.loader_batches >= 2 AS anew,
        CASE WHEN max(b.batch_index) OVER (PARTITION BY b.rank, b.loader_id) = 0 AND b.loader_batches >= 2 THEN 0 ELSE b.epoch END AS epoch, b.step, b.fingerprint, b.workers, b.field
    FROM batches b JOIN tensor_stats s ON s.rank = b.rank AND s.step = b.step AND s.seq = b.seq AND s.tensor_id = b.tensor_id
    WHERE b.loader_id IS NOT NULL AND b.fingerprint IS NOT NULL AND b.phase = 'data' AND s.min < s.max AND s.numel >= 8 AND len(b.shape) > 1
), seen AS (
    SELECT *, min(step) OVER (PARTITION BY rank, loader_id, epoch, field, fingerprint) AS earlier,
        row_number() OVER (PARTITION BY rank, loader_id, epoch, field, fingerprint ORDER BY batch_index) AS copy,
        count(*) OVER (PARTITION BY rank, loader_id, epoch, field) AS batches
    FROM fields
), copies AS (
    SELECT *, count(CASE WHEN copy > 1 THEN 1 END) OVER (PARTITION BY rank, loader_id, epoch, field) AS value FROM seen
)
SELECT rank, step, field, earlier, value, batches, workers, epoch,
    CASE WHEN anew THEN ', begun anew for every batch' ELSE ' of the same epoch' END AS where_,
    -- one batch and nothing else is how it is tested whether a model can learn at all
    CASE WHEN value = batches - 1 THEN 'warning' ELSE 'error' END AS severity FROM copies
WHERE copy > 1 AND value >= $least AND value >= $share * batches AND batches >= 4
ORDER BY step, rank, field
