/*
code = "DA010"
name = "duplicate-batches"
severity = "error"
phase = "data"
signal = "fingerprint"
message = "At step {step} comes a batch that had come at step {earlier}{where_}; {value} of {batches} batches are copies{by_}."
fix = "Split an IterableDataset over the workers with get_worker_info(), and seed each worker's own random generator. Take all batches from one iterator of the loader, not from next(iter(loader)). Seed a generator once, not for every batch. Without a loader, look at the index or the buffer from which batches are taken."
explains = ["overfit"]
[say.where_]
same_epoch = " of the same epoch"
started_anew = ", started again for every batch"
no_other = ", and no other from then on"
among_new_ones = ", while new ones come as well"
[say.by_]
workers = " ({workers} workers)"
[params.least]
value = 2
unit = "batches"
doc = "Copies in one epoch."
source = "convention: of this project, one copy may be in the data"
[params.share]
value = 0.1
doc = "Share of the epoch."
source = "convention: of this project, a few copies are in the data; a tenth of an epoch is how it is loaded"
[params.varied]
value = 8
unit = "batches"
doc = "Without a loader: batches before, each of them new."
source = "convention: of this project, as many new batches show that new ones do come"
[params.stuck]
value = 5
unit = "steps"
doc = "And steps, to the end of the run, that all get the same batch."
source = "convention: of this project, fewer may be several steps on one batch, as in an inner loop"
[params.again]
value = 5
unit = "batches"
doc = "Without a loader: copies of batches from a short while ago, among new ones, to the end of the run."
source = "convention: of this project, fewer may be in the data"
[params.often]
value = 0.25
doc = "Their share of the batches from the first copy on."
source = "convention: of this project, a quarter and three quarters: neither the odd copy nor an epoch that starts again"
[params.near]
value = 0.25
doc = "How far back they may lie at most, as a share of the new batches that came before."
source = "convention: of this project, a quarter of the data: a second epoch would begin at the first batch"
[params.content]
value = 16
unit = "elements"
doc = "Elements of a field that has content of its own."
source = "convention: of this project, fields of fewer are equal by chance"
[params.elements]
value = 8
unit = "elements"
doc = "Elements of a field that is looked at."
source = "convention: of this project, half of that, beside others"
[params.batches]
value = 4
unit = "batches"
doc = "Batches of an epoch."
source = "convention: of this project, of fewer a copy says little"
[needs]
tables = ["batches"]
columns = ["batches.fingerprint"]
[doc]
what = "The same content comes twice within one epoch of a training loader. Or it does so in a loader that is started again for every batch. Or there is no loader. Every step to the end has one batch with its targets, after batches that were all new. That is an error if it is one of those earlier batches, else a warning. Or from some step on every few batches repeat a recent one, with new ones between them."
why = "Samples count several times, and others are missing or the epoch is longer than it seems."
not_this = "One batch for a whole epoch (a warning: many do that to see whether a model learns at all). Fields that are alike in all batches, as masks and positions are. One accidental copy, a data set smaller than a few batches. Batches without a loader that come back only now and then, or from the beginning (several passes over one rollout). Such batches that come back when an optimizer begins (a discriminator that was alone before, L-BFGS on fixed points). Such batches of which no new one comes any more (a second epoch)."
source = "Equality of fingerprints."
*/
-- shared
WITH handed AS (
    -- what a script draws by itself: the first look at each tensor in a step
    SELECT b.rank, b.step, b.seq, b.role, b.tensor_id, b.field, b.fingerprint, b.phase = 'data'
        AND s.min < s.max
        AND s.numel >= $content
        AND len(b.shape) > 1 AS content
    FROM batches b
    JOIN tensor_stats s ON s.rank = b.rank AND s.step = b.step AND s.seq = b.seq AND s.tensor_id = b.tensor_id
    WHERE b.role IN ('input', 'target')
      AND b.phase IN ('data', 'loss')
      AND b.fingerprint IS NOT NULL
      AND s.numel >= $elements
      AND s.nan_count + s.inf_count = 0
      AND b.rank NOT IN (SELECT rank FROM batches WHERE loader_id IS NOT NULL)
    QUALIFY row_number() OVER (PARTITION BY b.rank, b.step, b.tensor_id ORDER BY b.seq) = 1
)
-- detector: copies_in_an_epoch
WITH fields AS (
    SELECT b.rank, b.loader_id, b.batch_index, max(b.batch_index) OVER (PARTITION BY b.rank, b.loader_id) = 0
        AND b.loader_batches >= 2 AS anew,
        CASE WHEN max(b.batch_index) OVER (PARTITION BY b.rank, b.loader_id) = 0
            AND b.loader_batches >= 2 THEN 0 ELSE b.epoch END AS epoch,
            b.step, b.seq, b.fingerprint, b.workers, b.field,
        s.min < s.max AND s.numel >= $elements AND len(b.shape) > 1 AND b.valid_fraction IS NULL AS content
    FROM batches b
    JOIN tensor_stats s ON s.rank = b.rank AND s.step = b.step AND s.seq = b.seq AND s.tensor_id = b.tensor_id
    WHERE b.loader_id IS NOT NULL AND b.fingerprint IS NOT NULL AND b.phase = 'data'
), loaded AS (
    -- a batch is a copy with all its fields: masks and positions may be the same in all of them
    SELECT rank, loader_id, batch_index, anew, epoch, step, any_value(workers) AS workers,
        arg_min(field, seq) FILTER (content) AS field,
        string_agg(field || ':' || fingerprint, ' ' ORDER BY field, seq) AS content_
    FROM fields GROUP BY ALL HAVING bool_or(content)
), seen AS (
    SELECT *, min(step) OVER (PARTITION BY rank, loader_id, epoch, content_) AS earlier,
        row_number() OVER (PARTITION BY rank, loader_id, epoch, content_ ORDER BY batch_index, step) AS copy,
        count(*) OVER (PARTITION BY rank, loader_id, epoch) AS batches
    FROM loaded
), copies AS (
    SELECT *, count(CASE WHEN copy > 1 THEN 1 END) OVER (PARTITION BY rank, loader_id, epoch) AS value
    FROM seen
)
SELECT rank, step, field, earlier, value, batches, workers, epoch,
    CASE WHEN anew THEN 'started_anew' ELSE 'same_epoch' END AS where_,
    CASE WHEN workers IS NOT NULL THEN 'workers' END AS by_,
    -- one batch and nothing else is how it is tested whether a model can learn at all
    CASE WHEN value = batches - 1 THEN 'warning' ELSE 'error' END AS severity FROM copies
WHERE copy > 1 AND value >= $least AND value >= $share * batches AND batches >= $batches
-- detector: one_batch_for_good
WITH turns AS (
    SELECT *, row_number() OVER w AS n, count(*) OVER (PARTITION BY rank, tensor_id) AS total,
        coalesce(fingerprint = lag(fingerprint) OVER w, false) AS again,
        min(step) OVER (PARTITION BY rank, tensor_id, fingerprint) AS earlier
            FROM handed
            WINDOW w AS (PARTITION BY rank, tensor_id ORDER BY step)
), tensors_ AS (
    SELECT rank, tensor_id, any_value(field) AS field, bool_and(content) AS content,
        max(n) FILTER (NOT again) AS last_new, any_value(total) AS batches, count(*) FILTER (again) AS value,
        arg_max(step, n) FILTER (NOT again) AS begun, arg_max(earlier, n) FILTER (NOT again) AS earlier,
            min(step) FILTER (again) AS first_again, max(step) AS last_
            FROM turns
            GROUP BY rank, tensor_id
), stuck AS (
    SELECT * FROM tensors_ WHERE last_new > $varied AND value = batches - last_new AND value >= $stuck
)
SELECT k.rank, CASE WHEN k.earlier < k.begun THEN k.begun ELSE k.first_again END AS step, k.field, k.earlier,
    k.value + CASE WHEN k.earlier < k.begun THEN 1 ELSE 0 END AS value, k.batches, 0 AS workers,
    NULL AS epoch, 'no_other' AS where_,
    CASE WHEN k.earlier < k.begun THEN 'error' ELSE 'warning' END AS severity
FROM stuck k
-- with everything that goes into the model or its loss, and is not the same at all times
WHERE k.content
  AND NOT EXISTS (FROM tensors_ t
      WHERE t.rank = k.rank
        AND t.last_ >= k.begun
        AND t.last_new > 1
        AND (t.rank, t.tensor_id, t.begun) NOT IN (SELECT (s.rank, s.tensor_id, s.begun) FROM stuck s))
  -- another optimizer takes over, that works on one set of points: L-BFGS needs a loss that stays the same
  -- function
  AND NOT EXISTS (FROM optimizer_series o
      WHERE o.rank = k.rank AND o.n = 0 AND o.step BETWEEN k.begun - 1 AND k.first_again AND o.step > 0)
QUALIFY row_number() OVER (PARTITION BY k.rank ORDER BY k.field) = 1
-- detector: copies_among_new_ones
WITH whole AS (
    -- a batch is what goes in first, with the targets: where modules are called one by one, what goes in
    -- later is what the first ones made
    SELECT rank, step, string_agg(tensor_id || ':' || fingerprint, ' ' ORDER BY tensor_id) AS content_,
        list(tensor_id ORDER BY tensor_id) AS parts, arg_min(field, seq) FILTER (content) AS field
    FROM (FROM handed
        QUALIFY role = 'target' OR row_number() OVER (PARTITION BY rank, step, role ORDER BY seq) = 1)
    GROUP BY rank, step
), drawn AS (
    SELECT *, row_number() OVER (PARTITION BY rank ORDER BY step) AS n,
        count(*) OVER (PARTITION BY rank) AS total
    FROM whole
), again AS (
    SELECT *, lag(n) OVER same AS n_before, lag(step) OVER same AS step_before,
        lag(parts) OVER (PARTITION BY rank ORDER BY n) AS parts_before
    FROM drawn
    WINDOW same AS (PARTITION BY rank, content_ ORDER BY n)
), echoes AS (
    SELECT rank, min(n) FILTER (n_before IS NOT NULL) AS begun, any_value(total) AS batches,
        max(n) FILTER (n_before IS NULL) AS last_new, max(n - n_before) AS apart, count(n_before) AS value,
        min(step) FILTER (n_before IS NOT NULL) AS step,
            arg_min(step_before, n) FILTER (n_before IS NOT NULL) AS earlier,
            arg_min(field, n) FILTER (n_before IS NOT NULL) AS field,
        arg_min(parts = parts_before, n) FILTER (n_before IS NOT NULL) AS alike
    FROM again GROUP BY rank
)
SELECT e.rank, e.step, e.field, e.earlier, e.value, e.batches, 0 AS workers, NULL AS epoch,
    'among_new_ones' AS where_, 'error' AS severity
FROM echoes e
WHERE e.alike
  AND e.field IS NOT NULL
  AND e.begun > $varied
  AND e.value >= $again
  AND e.apart <= $near * (e.begun - 1)
    AND e.value BETWEEN $often * (e.batches - e.begun + 1) AND (1 - $often) * (e.batches - e.begun + 1)
    -- new ones go on to come, and copies with them
    AND e.last_new > e.batches - $near * (e.batches - e.begun)
      AND EXISTS (FROM again a
          WHERE a.rank = e.rank
            AND a.n_before IS NOT NULL
            AND a.n > e.batches - $near * (e.batches - e.begun))
    AND NOT EXISTS (FROM optimizer_series o
        WHERE o.rank = e.rank AND o.n = 0 AND o.step BETWEEN e.earlier AND e.step)
-- together
ORDER BY step, rank, field
