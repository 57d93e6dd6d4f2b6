/*
code = "DA020"
name = "identical-worker-randomness"
severity = "error"
phase = "data"
signal = "event"
message = "{who_} draw the same random numbers. In each, {generator} is in the same state before the first batch and after it, although they read other samples. What is drawn for one batch comes again in others."
fix = "{remedy}"
seeks = ["events: event = 'worker-randomness'"]
explains = ["duplicate-batches"]
[say.who_]
workers = "{value} workers of the loader"
workers_in_each_epoch = "{value} workers of the loader, in each of {epochs} epochs,"
epochs = "The workers of {epochs} epochs"
[say.remedy]
seeded_alike = "Give every worker a seed of its own where it is seeded (worker_init_fn, or the dataset): torch.utils.data.get_worker_info().seed, which differs from worker to worker and from epoch to epoch; torch seeds the global generators of a worker by it already."
copied = "Seed it in each worker: worker_init_fn with info = torch.utils.data.get_worker_info() and a new generator of info.seed in the place of the one that info.dataset holds; or draw from torch's, numpy's or Python's global generator, which torch seeds in each worker."
[params.most]
value = 16
unit = "workers"
doc = "Workers of one pass that are compared."
source = "convention: of this project, as many show whether they draw alike; more cost time"
[needs]
tables = ["events", "batches"]
[doc]
what = "A random generator was in the same state when several workers of a training loader began their first batch. Or the workers of several epochs began with the same state. They drew from it for that batch, and left it in the same state. For the global generators of Python and numpy the epochs also read their samples in different orders."
why = "Each worker is a copy of the process, with a copy of the generator that the dataset holds. The same noise or augmentation comes in every worker and in every epoch."
not_this = "Generators that are made or seeded again in each worker. Generators that nobody draws from, loaders for evaluation, the order of samples. Epochs that read the same batches again."
source = "States of the generators, read in the workers without drawing."
*/
WITH draws AS (
    SELECT rank, step, detail ->> '$.generator' AS generator, detail ->> '$.before' AS before,
        detail ->> '$.after' AS after, (detail ->> '$.loader_id')::INT AS loader_id,
        (detail ->> '$.epoch')::INT AS epoch, (detail ->> '$.worker')::INT AS worker,
        generator IN ('random', 'numpy.random') AS shared
    FROM events
    WHERE event = 'worker-randomness' AND (detail ->> '$.worker')::INT < $most
), training AS (
    SELECT rank, loader_id, epoch, min(step - batch_index) AS begun FROM batches
    WHERE loader_id IS NOT NULL AND phase = 'data'
    GROUP BY rank, loader_id, epoch
), prints AS (
    SELECT b.rank, b.loader_id, b.epoch, b.batch_index, b.field, b.fingerprint, b.sample_indices
    FROM batches b
    SEMI JOIN draws d ON d.rank = b.rank AND d.loader_id = b.loader_id AND d.epoch = b.epoch
    WHERE b.phase = 'data' AND b.fingerprint IS NOT NULL
), other_order AS (
    -- later passes that read other samples; neither the same ones with new noise, nor ones that are drawn
    -- whatever index is asked for
    SELECT DISTINCT a.rank, a.loader_id, a.epoch, b.epoch AS later
    FROM prints a
    JOIN prints b ON b.rank = a.rank AND b.loader_id = a.loader_id AND b.epoch > a.epoch
        AND b.batch_index = a.batch_index AND b.field = a.field
    WHERE b.fingerprint <> a.fingerprint
      AND (a.sample_indices IS NULL OR b.sample_indices IS NULL OR a.sample_indices <> b.sample_indices)
), same AS (
    SELECT d.rank, d.loader_id, d.generator, d.before, d.after, count(DISTINCT d.epoch) AS epochs,
        count(DISTINCT d.worker) AS workers, min(d.epoch) AS epoch,
        any_value(d.step) AS seen, false AS shared
    FROM draws d WHERE NOT d.shared GROUP BY ALL
    UNION ALL BY NAME
    -- of one pass alone: the workers of another one may have drawn the same by the seed of that pass
    SELECT d.rank, d.loader_id, d.generator, d.before, d.after, 1 AS epochs,
        count(DISTINCT d.worker) AS workers, d.epoch, any_value(d.step) AS seen, d.shared
    FROM draws d GROUP BY d.rank, d.loader_id, d.generator, d.before, d.after, d.epoch, d.shared
    UNION ALL BY NAME
    -- global generators that are seeded by the worker's number alone
    SELECT d.rank, d.loader_id, d.generator, d.before, d.after, count(DISTINCT o.later) + 1 AS epochs,
        1 AS workers, d.epoch, d.step AS seen, d.shared
    FROM draws d
    JOIN other_order o ON o.rank = d.rank AND o.loader_id = d.loader_id AND o.epoch = d.epoch
    SEMI JOIN draws l ON l.rank = d.rank AND l.loader_id = d.loader_id AND l.generator = d.generator
        AND l.worker = d.worker AND l.before = d.before AND l.after = d.after AND l.epoch = o.later
    WHERE d.shared
    GROUP BY d.rank, d.loader_id, d.generator, d.before, d.after, d.epoch, d.worker, d.step, d.shared
)
SELECT s.rank, coalesce(t.begun, s.seen) + CASE WHEN s.workers > 1 THEN 1 ELSE 0 END AS step, s.generator,
    s.workers AS value, s.epochs,
    CASE WHEN s.workers > 1 AND s.epochs > 1 THEN 'workers_in_each_epoch'
        WHEN s.workers > 1 THEN 'workers' ELSE 'epochs' END AS who_,
    if(s.shared, 'seeded_alike', 'copied') AS remedy,
    CASE WHEN s.workers > 1 THEN 'error' ELSE 'warning' END AS severity
FROM same s
JOIN training l ON l.rank = s.rank AND l.loader_id = s.loader_id AND l.epoch = (SELECT min(m.epoch)
    FROM training m
    WHERE m.rank = s.rank AND m.loader_id = s.loader_id)
LEFT JOIN training t ON t.rank = s.rank
    AND t.loader_id = s.loader_id
    AND t.epoch = CASE WHEN s.workers > 1 THEN s.epoch ELSE 1 END
WHERE s.workers > 1 OR s.epochs > 1
QUALIFY row_number() OVER (
    PARTITION BY s.rank, s.loader_id, s.generator ORDER BY s.workers > 1 DESC, s.epochs DESC, s.epoch) = 1
ORDER BY step, s.rank
