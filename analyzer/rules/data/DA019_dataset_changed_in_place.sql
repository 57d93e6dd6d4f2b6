/*
code = "DA019"
name = "dataset-changed-in-place"
severity = "error"
phase = "data"
signal = "event"
message = "Reading a sample changes the dataset. Epoch {epoch} changed {path} of all {samples} samples that were looked at, from {before} to {after} (root mean square). It had been read before; field {field} of the batch was made from it. Every epoch trains on other values."
fix = "In __getitem__ copy what the dataset keeps before you transform it: copy.deepcopy(entry), array.copy() or tensor.clone(). Or use operations that make a new array (x = x / w in place of x /= w, inplace=False)."
seeks = ["events: event = 'dataset-changed'"]
explains = ["outlier-batch", "loss-off-course", "plateau", "unexplained-jump"]
[params.samples]
value = 2
unit = "samples"
doc = "Samples that must have been looked at, all with the same result."
source = "convention: of this project, one may be read while it is written"
[needs]
tables = ["events", "batches"]
[doc]
what = "The samples that the dataset keeps in memory change in __getitem__. They change in the first batch of a second or later pass over a training loader. This holds for all samples looked at, and a field of the batch is equal to the new value."
why = "A transform that works in place is applied again and again. From the second epoch on inputs or targets drift away from what they were."
not_this = "Values that are transformed once, when they are first read. Caches that get new entries. Counters and other single numbers. What is changed but not handed out. Datasets that change between the epochs. Workers, whose copies of the dataset are thrown away."
source = "The memory of the dataset itself, before and after the read."
*/
WITH reads AS (
    SELECT rank, step, detail ->> '$.path' AS path, detail ->> '$.field' AS field,
        (detail ->> '$.loader_id')::INT AS loader_id, (detail ->> '$.epoch')::INT AS epoch,
        (detail ->> '$.samples')::INT AS samples, (detail ->> '$.changed')::INT AS changed,
        (detail ->> '$.read')::INT AS read, (detail ->> '$.before')::DOUBLE AS before,
        (detail ->> '$.after')::DOUBLE AS after
    FROM events WHERE event = 'dataset-changed'
), training AS (
    SELECT rank, loader_id, epoch, min(step - batch_index) AS begun FROM batches
    WHERE loader_id IS NOT NULL AND phase = 'data'
    GROUP BY rank, loader_id, epoch
)
SELECT r.rank, coalesce(t.begun, r.step) AS step, r.path,
    coalesce(r.field,
        (SELECT any_value(o.field) FROM reads o WHERE o.rank = r.rank AND o.path = r.path)) AS field,
    r.epoch, r.samples, r.before, r.after,
    r.after / nullif(r.before, 0) AS value
FROM reads r
LEFT JOIN training t ON t.rank = r.rank AND t.loader_id = r.loader_id AND t.epoch = r.epoch
WHERE r.epoch > 0
  AND r.samples >= $samples
  AND r.changed = r.samples
  -- what a random crop hands out is not what is kept; another loader's way through the same code shows it
  AND (r.read = r.samples OR EXISTS (FROM reads o
      WHERE o.rank = r.rank AND o.path = r.path AND o.loader_id <> r.loader_id
        AND o.changed = o.samples AND o.read = o.samples))
  AND (r.rank, r.loader_id) IN (SELECT (rank, loader_id) FROM training)
QUALIFY row_number() OVER (PARTITION BY r.rank, r.loader_id, r.path ORDER BY r.epoch) = 1
ORDER BY step, r.rank
