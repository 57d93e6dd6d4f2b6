/*
code = "MO019"
name = "batchnorm-small-batch"
severity = "error"
phase = "forward"
signal = "batch_size"
message = "{from_}{module} ({class_name}) normalises over batches of {value} samples: {noise_}."
fix = "Use GroupNorm or LayerNorm, a larger batch, or SyncBatchNorm across ranks."
seeks = [
    "modules: class_name IN ('BatchNorm1d', 'BatchNorm2d', 'BatchNorm3d') AND call_order IS NOT NULL",
    "batches: phase = 'data' AND batch_size <= $most",
]
explains = ["loss-spike", "plateau", "overfit"]
[say.from_]
later = "From step {step} on "
[say.noise_]
noise = "its statistics are mostly noise"
unsteady = "its statistics change from batch to batch, and those kept for evaluation may fit none of them"
[params.most]
value = 4
unit = "samples"
doc = "Batch size up to which statistics are noise."
source = "convention: Wu and He (2018), Group Normalization: the error of batch norm on ImageNet rises from 23.6 % at 32 samples to 27.3 % at 4"
[params.noise]
value = 3
unit = "samples"
doc = "Samples up to which it is an error; with one more it is a warning."
source = "arithmetic: the standard error of a variance over n values is sqrt(2 / (n - 1)) of it, all of it with three"
[params.least]
value = 12
unit = "steps"
doc = "Steps of such batches at the end of a run that had larger ones."
source = "convention: of this project, fewer may be the last batches of an epoch"
[needs]
tables = ["batches", "modules"]
columns = ["batches.batch_size"]
steps = 5
[doc]
what = "Batch norm in train mode gets four samples a batch or fewer. This holds in most steps, or from some step to the end. It is a warning with four samples."
why = "Mean and variance over so few samples change from step to step; running statistics do not fit what training saw."
not_this = "Batch norms in eval mode, batches that are lists of many samples, a small last batch. Samples that the model cuts into many. Pictures and series, whose many positions count as samples: a warning, and only where the model is evaluated."
source = "Threshold of the catalogue: 4 samples a batch."
*/
WITH sizes AS (
    -- a detector's batch is a list: of samples, whose first dimension is their channels or boxes, and so as
    -- large as the list is long
    SELECT rank, step, microbatch, max(greatest(size, members)) AS size FROM (
        SELECT rank, step, microbatch, max(batch_size) AS size,
            count(DISTINCT split_part(field, '.', 2)) FILTER (regexp_matches(field,
                '^[^.]+[.][0-9]+([.]|$)')) AS members
        FROM batches
        WHERE role IN ('input', 'field', 'target')
          AND phase = 'data'
          AND batch_size IS NOT NULL
          AND len(shape) >= 2
        GROUP BY rank, step, microbatch, split_part(field, '.', 1))
    GROUP BY rank, step, microbatch
), whole AS (
    SELECT rank, 0 AS step, median(size)::BIGINT AS value FROM sizes GROUP BY rank
), later AS (
    -- after larger ones, and to the end
    SELECT s.rank, min(s.step) AS step, median(s.size)::BIGINT AS value
    FROM sizes s
    JOIN (SELECT rank, max(step) AS step FROM sizes WHERE size > $most GROUP BY rank) l ON l.rank = s.rank
        AND s.step > l.step
    GROUP BY s.rank HAVING count(DISTINCT s.step) >= $least
), small AS (
    SELECT * FROM later WHERE value <= $most
    UNION ALL SELECT * FROM whole WHERE value <= $most AND rank NOT IN (SELECT rank FROM later)
), modes AS (
    SELECT rank, module_id, training, step,
        lead(step, 1, 9223372036854775807) OVER (PARTITION BY rank, module_id ORDER BY step) AS until
    FROM module_modes
    WHERE grad
), given AS (
    -- what it puts out is as large as what it normalises: windows of a night come as samples of their own
    SELECT t.rank, t.module_id, max(t.shape[1]) AS samples, max(len(t.shape)) AS dimensions
    FROM tensors t
    WHERE t.kind = 'activation' AND len(t.shape) > 0
    GROUP BY t.rank, t.module_id
), norms AS (
    SELECT m.rank, m.module_id, m.module, m.class_name, m.call_order, s.step, s.value,
        m.class_name = 'BatchNorm1d' AND coalesce(g.dimensions <= 2, true) AS single
    FROM modules m
    JOIN small s ON s.rank = m.rank
    LEFT JOIN given g ON g.rank = m.rank AND g.module_id = m.module_id
    WHERE regexp_matches(m.class_name, '^BatchNorm[123]d$') AND m.call_order IS NOT NULL
      AND coalesce(g.samples <= greatest($most,
          (SELECT max(z.size) FROM sizes z WHERE z.rank = m.rank)), true)
      -- it takes the statistics of at least half of these batches
      AND coalesce((SELECT 2 * count(*) FILTER (q.training AND z.size <= $most) >= count(*)
          FROM modes q
          JOIN sizes z ON z.rank = q.rank AND z.step >= greatest(q.step, s.step) AND z.step < q.until
          WHERE q.rank = m.rank AND q.module_id = m.module_id
          HAVING count(*) > 0), true)
)
SELECT rank, step, module, class_name, value,
    CASE WHEN single AND value <= $noise THEN 'error' ELSE 'warning' END AS severity,
    CASE WHEN step > 0 THEN 'later' END AS from_,
    CASE WHEN single THEN 'noise' ELSE 'unsteady' END AS noise_
FROM norms n
-- over many positions of few pictures or series it normalises well; what may not fit are the statistics for
-- an evaluation
WHERE single
  OR EXISTS (FROM module_modes q WHERE q.rank = n.rank AND q.module_id = n.module_id AND NOT q.training)
ORDER BY step, rank, severity, call_order
