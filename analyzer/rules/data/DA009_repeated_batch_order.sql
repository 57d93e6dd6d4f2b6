/*
code = "DA009"
name = "repeated-batch-order"
severity = "error"
phase = "data"
signal = "fingerprint"
message = "Epoch {epoch} of the loader hands out the same {batches} batches in the same order as the epoch before, although its sampler mixes the samples: every epoch is the same."
fix = "Call sampler.set_epoch(epoch), or give the sampler a generator that is not seeded anew in each epoch."
[params.least]
value = 4
unit = "batches"
doc = "Batches of an epoch."
[needs]
tables = ["batches"]
columns = ["batches.fingerprint", "batches.epoch"]
[doc]
what = "A training loader whose sequence of batches repeats exactly from one epoch to the next while the order of its samples is a mixed one."
why = "The mixing that stochastic gradients need happens once; batches keep their company for ever."
not_this = "A loader that is not shuffled on purpose (its indices ascend: said as a warning by none), evaluation, epochs of one to three batches."
source = "Equality of fingerprints."
*/
WITH fields AS (
    SELECT rank, loader_id, epoch, batch_index, min(step) AS step, min(fingerprint) AS fingerprint, any_value(sample_indices) AS indices
    FROM batches WHERE loader_id IS NOT NULL AND fingerprint IS NOT NULL AND phase = 'data' AND epoch IS NOT NULL
      AND field = (SELECT min(field) FROM batches f WHERE f.rank = batches.rank AND f.loader_id = batches.loader_id)
    GROUP BY rank, loader_id, epoch, batch_index
), epochs AS (
    SELECT rank, loader_id, epoch, min(step) AS step, list(fingerprint ORDER BY batch_index) AS prints, count(*) AS batches, count(DISTINCT fingerprint) AS different,
        bool_or(indices IS NOT NULL AND len(indices) > 1 AND indices <> list_sort(indices)) AS mixed
    FROM fields GROUP BY rank, loader_id, epoch
)
SELECT e.rank, e.step, e.epoch, e.batches, e.epoch AS value FROM epochs e
JOIN epochs p ON p.rank = e.rank AND p.loader_id = e.loader_id AND p.epoch = e.epoch - 1
WHERE e.batches >= $least AND e.different > 0.5 * e.batches AND e.mixed AND list_slice(p.prints, 1, e.batches) = e.prints
ORDER BY e.step, e.rank
