/*
code = "DA029"
name = "stale-worker-state"
severity = "error"
phase = "data"
signal = "event"
message = "{what_} has changed{from_} in the main process since the loader's {workers} workers were started. With persistent_workers=True they keep the copy of the start: from step {step} on they make samples with this old copy.{more_}"
fix = "Keep it in memory that processes share: a multiprocessing.Value, or a tensor after share_memory_(), made before the first pass. Or leave persistent_workers off, so that each epoch starts new workers. Or hand it over with each index, from the sampler."
seeks = ["events: event = 'stale-worker-state'"]
explains = ["repeated-batch-order", "duplicate-batches", "identical-worker-randomness"]
[say.what_]
of_dataset = "Attribute {path} ({dataset})"
of_collate_fn = "Attribute {path}"
global_variable = "The {path}"
[say.from_]
known = " from {before} to {after}"
[say.more_]
one = " So has 1 other of what they read."
several = " So have {others} others of what they read."
[needs]
tables = ["events", "batches"]
[doc]
what = "The code of the workers reads a value and does not write it. This is an attribute of the dataset, of a transform or collate_fn, or a global variable of the script. The value is different when a later pass begins than when the persistent workers were started. For a loader of evaluations alone it is a warning."
why = "A worker is a copy of the process. Later changes by set_epoch, a curriculum or a switch for mix-up never reach it. Draws that depend on the epoch repeat, and the difficulty stays."
not_this = "What processes share, workers that each epoch starts again. Attributes that only the main process uses or that workers write themselves. A change that is taken back before the next pass."
source = "Attributes as they were when the workers were started, compared at the start of each pass. The instructions of the code that makes samples say what it reads."
*/
WITH told AS (
    SELECT rank, step, detail ->> '$.path' AS path, detail ->> '$.kind' AS kind,
        (detail ->> '$.loader_id')::INT AS loader_id, (detail ->> '$.workers')::INT AS workers,
        detail ->> '$.dataset' AS dataset, (detail ->> '$.before') AS before, (detail ->> '$.after') AS after
    FROM events
    WHERE event = 'stale-worker-state'
), loaders AS (
    SELECT rank, loader_id, bool_and(phase = 'eval') AS evaluates
    FROM batches WHERE loader_id IS NOT NULL GROUP BY rank, loader_id
)
SELECT t.rank, t.step, t.workers, t.workers AS value, t.path, t.dataset, t.before, t.after,
    count(*) OVER (PARTITION BY t.rank, t.loader_id) - 1 AS others,
    CASE WHEN t.path LIKE 'dataset%' THEN 'of_dataset' WHEN t.path LIKE 'collate_fn%' THEN 'of_collate_fn'
        ELSE 'global_variable' END AS what_,
    CASE WHEN t.before || t.after IS NOT NULL THEN 'known' END AS from_,
    CASE WHEN others > 1 THEN 'several' WHEN others = 1 THEN 'one' END AS more_,
    CASE WHEN l.evaluates THEN 'warning' ELSE 'error' END AS severity
FROM told t LEFT JOIN loaders l ON l.rank = t.rank AND l.loader_id = t.loader_id
QUALIFY row_number() OVER (PARTITION BY t.rank, t.loader_id
    ORDER BY t.step, t.kind <> 'number', len(t.path), t.path) = 1
ORDER BY t.step, t.rank, t.loader_id
