/*
code = "DA011"
name = "train-eval-leak"
severity = "error"
phase = "eval"
signal = "sample_fingerprints"
message = "{value} of {samples} evaluated samples ({percent} %) were also trained on{by_}: the evaluation measures memory."
fix = "{remedy}; {value} samples are in both."
seeks = [
    [
        "batches: phase = 'eval' AND sample_fingerprints IS NOT NULL AND valid_fraction IS NULL AND shape[len(shape)] >= 2",
        "events: event = 'called-validation'",
        "events: event = 'whole-of-split'",
    ],
]
[say.by_]
other_rank = " by rank {other}"
as_validation = ", and {place} goes through them as {text}"
own_steps = ", in {steps} optimizer steps of their own ({place} goes through them as {text})"
unread_split = ", for both read the whole of the data set that is split at {place}, and no loader reads a part of it"
[say.remedy]
read_the_parts = "Give the parts of the split to the loaders, not the data set that they were taken from"
own_split = "Split by sample (or by source) before anything is copied or augmented"
other_ranks_split = "Give every rank the same split: random_split(data, sizes, generator=torch.Generator().manual_seed(seed)), or split once and share the indices. Each rank has drawn a split of its own"
own_view = "Give the validation a split of its own: its data set reads the training samples. The evaluation after the training reads others"
no_steps = "Leave backward and optimizer.step() out where the validation set is gone through, and use model.eval() and torch.no_grad() there"
[params.share]
value = 0.02
doc = "Share of the evaluated samples."
source = "convention: of this project, one sample of a hundred may be a copy that came with the data"
[params.least]
value = 3
unit = "samples"
doc = "Samples in both."
source = "convention: of this project, two may be equal by chance"
[params.enough]
value = 20
unit = "samples"
doc = "Evaluated samples of which none was trained on: so many show, in one field of the loaders, that the split is right."
source = "arithmetic: with a share of 2 % in both, none of 20 is common in two of three runs. With a tenth it is one of eight"
[params.bouts]
value = 2
unit = "evaluations"
doc = "Evaluations that make a part of the training set, loaded by a loader of its own, a validation set."
source = "convention: of this project, one evaluation may be a look at the training"
[params.part]
value = 0.5
doc = "Share of the training samples up to which such a set is a part of them."
source = "convention: of this project, more than half is the training set, rather than a part of it"
[params.common]
value = 0.5
doc = "Share of the evaluated samples below which it is a warning. It applies where samples are as often equal within the training set."
source = "convention: of this project, as often as the data repeat themselves is no split that failed"
[params.content]
value = 5
unit = "elements"
doc = "Elements of a sample that has content of its own."
source = "convention: of this project, samples of fewer are equal by chance"
[params.unlike]
value = 0.4
unit = "of the samples"
doc = "Different samples from which a field tells them apart."
source = "convention: of this project, less than half is chance"
[params.padded]
value = 0.25
unit = "of the samples"
doc = "Share of the evaluated samples in the training set from which a loader reads it, where samples are padded."
source = "convention: of this project, only those of one length look the same"
[params.all_of_them]
value = 0.98
unit = "of the samples"
doc = "The same where they are not padded."
source = "convention: of this project, all of them, but for a few"
[params.stretch]
value = 10
unit = "steps"
doc = "Steps of a stretch with forwards without gradients."
source = "convention: of this project, fewer may be evaluations"
[params.fresh]
value = 0.9
unit = "of the steps"
doc = "Share of those steps that bring other samples."
source = "convention: of this project, one of ten may repeat itself"
[params.most_steps]
value = 0.8
unit = "of the steps"
doc = "Share of the steps of the stretch that have such forwards."
source = "convention: of this project, one of five may be left out"
[params.whole_set]
value = 0.8
unit = "of the training set"
doc = "Share of it that an evaluation on all of it takes."
source = "convention: of this project, one of five may not be seen yet"
[needs]
tables = ["batches"]
columns = ["batches.sample_fingerprints"]
[doc]
what = "Training and evaluation batches share samples with equal content, but not all of them. Or they share all samples of every evaluation, where these come from a loader of their own. Then they are at most half of the training samples. Or one rank evaluates samples that another trains on, while no rank trains on what it evaluates itself. Or the data set of a loader that the script calls its validation set holds the training samples. It is a data set of its own, and only the evaluation after the training reads other samples. Or the optimizers of the training make a step on each batch of that loader too, in passes of its own. Or the script splits a data set, and the loaders of training and evaluation both read the whole of it."
why = "What was seen in training is no test."
not_this = "Samples of several fields of which fewer than half are alike in one field, and none in all (a warning). The batch that was just trained on. Batches that an evaluation without no_grad brings (eval-without-no-grad). Evaluation on the training set itself. Beside another evaluation, one on a part of it that has a loader of its own, or one on all of it in one forward. One on all that there is, after the training and beside another. Said as a warning: evaluation on some batches of it beside no other, or once on everything there is. Coarse data in which equal samples are common (a warning where they are few in either set, or whole numbers that come several times in one epoch, too, or beside other numbers that all differ). The same few prompts beside the samples of every evaluation. Masks, label maps that are alike while the images are not, samples of fewer than five numbers. Outputs of another model in front of this one. Samples on which another model was trained: the folds of a cross-validation in one process. Forwards without gradients on other samples in every step. Samples that an agent in train mode made itself."
source = "Equality of a 64-bit hash of up to 64 elements."
*/
-- shared
WITH prompts AS (
    -- the names of the classes, with which a model of pictures and texts is asked: always the same few beside
    -- what is evaluated
    SELECT b.rank, b.tensor_id
    FROM batches b
    WHERE b.phase = 'eval' AND b.fingerprint IS NOT NULL
    GROUP BY b.rank, b.tensor_id
    HAVING count(DISTINCT b.fingerprint) = 1 AND bool_and(EXISTS (
        FROM batches o
        WHERE o.rank = b.rank
          AND o.step = b.step
          AND o.phase = 'eval'
          AND o.tensor_id <> b.tensor_id
          AND o.batch_size > b.batch_size))
), all_samples AS (
    SELECT b.rank, phase = 'eval' AS evaluated, b.step, b.seq, b.loader_id, b.epoch, b.field,
        b.shape[2] AS width,
        contains(b.dtype, 'int') AS whole_numbers,
        unnest(sample_fingerprints) AS sample,
        (SELECT count(*) FROM handovers h WHERE h.rank = b.rank AND h.fresh AND h.step <= b.step) AS stage
    -- masks say how long a sample is, not which
    FROM batches b
    WHERE sample_fingerprints IS NOT NULL
      AND valid_fraction IS NULL
      AND shape[len(shape)] >= 2
      AND list_product(list_transform(shape[2:], lambda x: x::DOUBLE)) >= $content
      -- where the next model takes over, an evaluation belongs to the one or the other
      AND NOT (phase = 'eval'
          AND EXISTS (FROM handovers h WHERE h.rank = b.rank AND h.fresh AND h.step = b.step))
      AND NOT (phase = 'eval' AND (b.rank, b.step) IN (SELECT (rank, step) FROM looks_back))
      -- what another model has computed is no sample: the next batch is computed with the weights of the
      -- evaluation before it
      AND NOT ((b.rank, b.tensor_id) IN (SELECT (rank, tensor_id) FROM tensors WHERE requires_grad))
      -- what an agent does without gradients is what it then learns from
      AND NOT (phase = 'eval' AND b.loader_id IS NULL AND b.rank IN (FROM acting_models))
      -- what loaders bring to an evaluation is told by them
      AND NOT (phase = 'eval'
          AND b.loader_id IS NULL
          AND (b.rank, b.step) IN (SELECT (rank, step)
              FROM batches
              WHERE phase = 'eval' AND loader_id IS NOT NULL))
      AND NOT (phase = 'eval' AND (b.rank, b.tensor_id) IN (SELECT (rank, tensor_id) FROM prompts))
      -- an evaluation that forgets no_grad brings batches like those of the training
      AND NOT (phase <> 'eval'
          AND (b.rank, b.step) IN (SELECT (rank, step) FROM steps WHERE eval_grad_forwards > 0))
), times AS (
    SELECT rank, stage, field, sample, count(*) AS times, max(within) AS within,
        bool_and(whole_numbers) AS whole_numbers
    FROM (
        SELECT rank, stage, field, sample, whole_numbers,
            count(*) OVER (PARTITION BY rank, stage, field, sample, loader_id, epoch,
                CASE WHEN loader_id IS NULL THEN step END) AS within
        FROM all_samples WHERE NOT evaluated)
    GROUP BY rank, stage, field, sample
), telling AS (
    -- where chance makes samples alike, most of them come several times in an epoch, or in a batch where
    -- there is no loader; where some were copied, most do not
    SELECT rank, field
    FROM times
    GROUP BY rank, field
    HAVING count(*) / sum(times) > $unlike OR median(within) = 1
), samples AS (
    SELECT *
    FROM all_samples a
    WHERE EXISTS (FROM telling t WHERE t.rank = a.rank AND t.field IS NOT DISTINCT FROM a.field)
)
-- shared: train
SELECT rank, stage, sample, min(step) AS step
FROM samples
WHERE NOT evaluated
GROUP BY rank, stage, sample
-- shared: evaluated
WITH loaders AS (
    -- samples of varying length are padded to that of their batch, and alike only where that is the same
    SELECT e.rank, e.loader_id, count(*) >= $enough
        AND count(t.sample) < $share * count(*) AS apart,
            count(t.sample) >= CASE
                WHEN bool_or(e.padded) THEN $padded
                ELSE $all_of_them
                END * count(*) AS trained
    FROM (
        SELECT rank, stage, loader_id, sample, max(width) OVER loader > min(width) OVER loader AS padded
        FROM samples
        WHERE evaluated AND loader_id IS NOT NULL
        WINDOW loader AS (PARTITION BY rank, loader_id, field)
    ) e
        LEFT JOIN train t ON t.rank = e.rank AND t.stage = e.stage AND t.sample = e.sample
        GROUP BY e.rank, e.loader_id
), forwards AS (
    -- without loaders, the whole training set in one forward
    SELECT e.rank, e.step, e.seq, count(*) >= $enough AND count(t.sample) < $share * count(*) AS apart,
        count(t.sample) >= $all_of_them * count(*) AND count(*) >= $whole_set * (SELECT count(*)
            FROM train w WHERE w.rank = e.rank AND w.stage = any_value(e.stage)) AS trained
    FROM (SELECT DISTINCT rank, stage, step, seq, field, sample
        FROM samples
        WHERE evaluated AND loader_id IS NULL) e
        LEFT JOIN train t ON t.rank = e.rank AND t.stage = e.stage AND t.sample = e.sample
        GROUP BY e.rank, e.step, e.seq, e.field
), everything AS (
    -- loaders that bring the whole training set and more, once the training is over
    SELECT e.rank, e.loader_id
    FROM (SELECT rank, stage, loader_id, sample, min(step) AS step
        FROM samples WHERE evaluated AND loader_id IS NOT NULL GROUP BY ALL) e
    LEFT JOIN train t ON t.rank = e.rank AND t.stage = e.stage AND t.sample = e.sample
    GROUP BY e.rank, e.stage, e.loader_id
    HAVING count(t.sample) >= $whole_set * (SELECT count(*)
            FROM train w WHERE w.rank = e.rank AND w.stage = e.stage)
        AND min(e.step) > (SELECT max(step) FROM samples w
            WHERE w.rank = e.rank AND w.stage = e.stage AND NOT w.evaluated)
)
SELECT rank, stage, field, sample, min(step) AS step, bool_and(whole_numbers) AS whole_numbers
FROM samples s WHERE evaluated
  -- beside a validation set of its own, a part of the training set is looked at for comparison
  AND NOT (((rank, loader_id) IN (SELECT (rank, loader_id) FROM loaders WHERE trained)
          OR (rank, loader_id) IN (SELECT (rank, loader_id) FROM everything))
      AND rank IN (SELECT rank FROM loaders WHERE apart))
  AND NOT ((rank, step, seq) IN (SELECT (rank, step, seq) FROM forwards WHERE trained)
      AND rank IN (SELECT rank FROM forwards WHERE apart))
GROUP BY rank, stage, field, sample
-- shared: within_steps
-- forwards without gradients in nearly every step of a stretch, each time on other samples: targets of
-- the training, as of a Q
-- network, or a body that stays frozen for a while
SELECT b.rank
FROM batches b
WHERE b.phase = 'eval' AND b.role = 'input' AND b.fingerprint IS NOT NULL
GROUP BY b.rank
HAVING bool_and(b.loader_id IS NULL) AND count(DISTINCT b.fingerprint) >= $stretch
   AND count(DISTINCT b.fingerprint) >= $fresh * count(DISTINCT b.step)
   AND count(DISTINCT b.step) >= greatest($stretch,
       $most_steps * (SELECT count(DISTINCT s.step)
           FROM steps s
           WHERE s.rank = b.rank AND s.step BETWEEN min(b.step) AND max(b.step)))
-- shared: loaded
SELECT DISTINCT rank, field, evaluated, sample FROM samples WHERE loader_id IS NOT NULL
-- shared: fields
SELECT e.rank, e.field, count(*) AS samples, count(t.sample) AS value,
    min(greatest(e.step, t.step)) FILTER (t.sample IS NOT NULL) AS step,
    bool_and(e.whole_numbers) AS whole_numbers, median(m.within) AS within
FROM evaluated e
LEFT JOIN train t ON t.rank = e.rank AND t.stage = e.stage AND t.sample = e.sample
LEFT JOIN times m ON m.rank = e.rank AND m.stage = e.stage AND m.sample = e.sample AND m.whole_numbers
    AND t.sample IS NOT NULL
GROUP BY e.rank, e.field
-- shared: beside_them
-- numbers of another kind that are evaluated too, of which none was trained on
SELECT DISTINCT e.rank
FROM all_samples e
LEFT JOIN (SELECT DISTINCT rank, sample FROM all_samples WHERE NOT evaluated) t
    ON t.rank = e.rank AND t.sample = e.sample
WHERE e.evaluated AND NOT e.whole_numbers
GROUP BY e.rank, e.field
HAVING count(DISTINCT e.sample) >= $enough AND count(t.sample) = 0
-- shared: tuples_apart
-- samples of several fields of a loader that are alike in one field at most, as pairs of a few pictures are
WITH places AS (
    SELECT rank, phase = 'eval' AS evaluated, step, loader_id, batch_index, field,
        unnest(sample_fingerprints) AS sample, generate_subscripts(sample_fingerprints, 1) AS place
    FROM batches
    WHERE sample_fingerprints IS NOT NULL AND loader_id IS NOT NULL AND valid_fraction IS NULL
      AND shape[len(shape)] >= $content
), tuples AS (
    SELECT rank, evaluated, list(sample ORDER BY field) AS parts
    FROM places GROUP BY rank, evaluated, step, loader_id, batch_index, place
    HAVING count(*) > 1
)
SELECT e.rank FROM tuples e
LEFT JOIN (SELECT DISTINCT rank, parts FROM tuples WHERE NOT evaluated) t
    ON t.rank = e.rank AND t.parts = e.parts
WHERE e.evaluated AND e.rank IN (SELECT rank FROM tuples WHERE NOT evaluated)
GROUP BY e.rank
HAVING count(*) >= $enough AND count(t.parts) < $share * count(*)
-- shared: counted
-- a sample of several fields is one sample: the field that shows most. Whole numbers may be alike by
-- chance: then what is in both comes several times in one epoch of the training set, or differs beside it
SELECT f.*, coalesce(f.whole_numbers AND (f.within > 1 OR f.rank IN (FROM beside_them)), false)
    OR f.value < $part * f.samples AND f.rank IN (FROM tuples_apart) AS by_chance
FROM fields f
QUALIFY row_number() OVER (PARTITION BY f.rank ORDER BY f.value DESC, f.samples DESC) = 1
-- shared: repeated
-- in the first half of the steps, before a second pass: what comes again there is alike by chance. Among
-- all of them it is twice as much
SELECT rank, max(share) AS share
FROM (
    SELECT rank, field, 2 * sum(times) FILTER (times > 1) / sum(times) AS share
    FROM (
        SELECT rank, field, sample, count(*) AS times
        FROM (
            SELECT *, max(step) OVER trained AS last_, min(step) OVER trained AS first_
            FROM samples WHERE NOT evaluated WINDOW trained AS (PARTITION BY rank, stage))
        WHERE 2 * step < first_ + last_
        GROUP BY ALL)
    GROUP BY rank, field)
GROUP BY rank
-- detector: own_split
WITH whole AS (
    -- only after a whole epoch of a loader is it known which samples are trained on
    SELECT DISTINCT rank
    FROM batches
    WHERE phase = 'data' AND loader_id IS NOT NULL AND sample_fingerprints IS NOT NULL
      AND EXISTS (FROM batches l
          WHERE l.rank = batches.rank AND l.loader_id = batches.loader_id AND l.epoch >= 1)
    UNION
    -- a loader that is made again for each epoch
    SELECT rank
    FROM (SELECT rank, tensor_id, loader_id, count(*) AS batches
        FROM batches
        WHERE phase = 'data' AND loader_id IS NOT NULL AND role = 'input'
        GROUP BY ALL)
    GROUP BY rank, tensor_id, batches HAVING count(*) >= 2
), apart AS (
    -- an evaluation with a loader of its own, more than once, and all of it from the training set: that is a
    -- split that failed
    SELECT b.rank FROM batches b WHERE b.phase = 'eval' AND b.role = 'input' GROUP BY b.rank
    HAVING count(DISTINCT b.step) >= $bouts
        AND bool_and(b.loader_id IS NOT NULL AND (b.rank, b.loader_id) NOT IN (
        SELECT (l.rank, l.loader_id) FROM batches l WHERE l.phase <> 'eval' AND l.loader_id IS NOT NULL))
), unlike AS (
    -- a field of the loaders in which no sample is the same: what is the same in another, as empty label maps
    -- are, is so by chance
    SELECT e.rank
    FROM loaded e
    LEFT JOIN loaded t ON t.rank = e.rank AND t.field = e.field AND NOT t.evaluated AND t.sample = e.sample
    WHERE e.evaluated
      AND EXISTS (FROM loaded l WHERE l.rank = e.rank AND l.field = e.field AND NOT l.evaluated)
    GROUP BY e.rank, e.field HAVING count(*) >= $enough AND count(t.sample) = 0
), alike AS (
    -- how many samples of an epoch (of a batch where there is no loader; of all, where nearly every one comes
    -- once) are there more than once
    SELECT rank, max(share) AS share FROM (
        SELECT rank, field,
            CASE
                WHEN median(times) = 1 THEN sum(times) FILTER (times > 1)
                ELSE sum(times) FILTER (within > 1)
                END / sum(times) AS share
        FROM times t
        WHERE EXISTS (FROM telling l WHERE l.rank = t.rank AND l.field IS NOT DISTINCT FROM t.field)
        GROUP BY rank, field)
    GROUP BY rank
)
SELECT c.rank, c.step, c.value, c.samples, percent_of_whole(c.value, c.samples) AS percent,
    'own_split' AS remedy,
    c.by_chance OR c.value < $common * c.samples AND c.value <= coalesce(2 * a.share * c.samples, 0)
        AS by_chance,
    CASE WHEN (c.value >= $all_of_them * c.samples
        AND (c.rank NOT IN (SELECT rank FROM apart)
            OR c.samples > $part * (SELECT count(*) FROM train t WHERE t.rank = c.rank)))
        OR c.by_chance
        OR c.rank NOT IN (SELECT rank FROM whole)
        -- all that there is was put through the model once, as to take features of it
        OR (c.value >= $all_of_them * coalesce(nullif(
                (SELECT count(DISTINCT l.sample) FROM loaded l WHERE l.rank = c.rank AND NOT l.evaluated), 0),
                (SELECT count(*) FROM train t WHERE t.rank = c.rank))
            AND (SELECT count(DISTINCT b.step) FROM batches b WHERE b.rank = c.rank AND b.phase = 'eval') = 1)
        -- as common as within the training set, and rare: the data repeat themselves
        OR c.value < $common * c.samples
          AND c.value <= 2 * a.share * c.samples THEN 'warning' ELSE 'error' END AS severity
FROM counted c LEFT JOIN alike a ON a.rank = c.rank LEFT JOIN repeated r ON r.rank = c.rank
WHERE c.rank NOT IN (SELECT rank FROM within_steps)
  AND c.rank NOT IN (SELECT rank FROM unlike)
  AND c.value >= $least
  AND c.value >= $share * c.samples
  AND NOT (c.rank NOT IN (SELECT rank FROM whole)
      AND c.value < $common * c.samples
      AND coalesce(c.value <= 2 * a.share * c.samples, false))
  -- without a loader, in a first pass: as many as an evaluation of other samples would find
  AND NOT (c.rank NOT IN (SELECT rank FROM whole) AND coalesce(c.value <= r.share * c.samples, false)
      AND c.rank NOT IN (SELECT rank FROM times GROUP BY rank, field HAVING median(times) > 1))
  -- evaluating on all that was trained on is a choice
  AND NOT (c.value >= $all_of_them * c.samples
      AND c.samples >= $whole_set * (SELECT count(*) FROM train t WHERE t.rank = c.rank))
-- detector: other_ranks_split
WITH elsewhere AS (
    -- each rank's own split is right, and they are not the same one: what one evaluates, another trains on
    SELECT e.rank, t.rank AS other, e.field, count(*) AS value, min(greatest(e.step, t.step)) AS step
    FROM evaluated e
    JOIN (SELECT rank, field, sample, min(step) AS step
        FROM samples
        WHERE NOT evaluated
        GROUP BY rank, field, sample) t ON t.sample = e.sample
        AND t.field IS NOT DISTINCT FROM e.field
        AND t.rank <> e.rank
    GROUP BY e.rank, t.rank, e.field
), across AS (
    SELECT x.*, s.samples
    FROM elsewhere x
    JOIN (SELECT rank, field, count(*) AS samples FROM evaluated GROUP BY rank, field) s ON s.rank = x.rank
        AND s.field IS NOT DISTINCT FROM x.field
    WHERE x.value >= $least
      AND x.value >= $share * s.samples
      AND NOT EXISTS (FROM counted c WHERE c.value > 0)
      AND x.rank NOT IN (SELECT rank FROM within_steps)
      -- a field of the loaders that both ranks have, and in which no sample is the same: what is the same in
      -- another is so by chance
      AND NOT EXISTS (
          SELECT 1
          FROM loaded e
          JOIN loaded t ON t.rank = x.other AND NOT t.evaluated AND t.field = e.field
          WHERE e.rank = x.rank AND e.evaluated
          GROUP BY e.field
          HAVING count(DISTINCT e.sample) >= $enough AND count(*) FILTER (t.sample = e.sample) = 0)
    QUALIFY row_number() OVER (ORDER BY x.step, x.value DESC, x.rank, x.other) = 1
)
SELECT x.rank, x.step, x.value, x.samples, percent_of_whole(x.value, x.samples) AS percent, x.other,
    'other_rank' AS by_, 'other_ranks_split' AS remedy, 'error' AS severity
FROM across x
-- detector: training_set_as_validation
WITH passes AS (
    -- a data set of its own, which no step is trained on, gone through again and again
    SELECT b.rank, b.loader_id, min(b.step) AS step, any_value(e.detail ->> '$.place') AS place,
        any_value(e.detail ->> '$.text') AS text
    FROM batches b
    JOIN events e ON e.rank = b.rank AND e.event = 'called-validation'
        AND (e.detail ->> '$.loader_id')::INT = b.loader_id
    WHERE b.loader_id IS NOT NULL
    GROUP BY b.rank, b.loader_id
    HAVING bool_and(b.phase = 'eval') AND count(DISTINCT b.step) >= $bouts
        AND any_value(b.dataset_id) NOT IN (SELECT t.dataset_id FROM batches t
            WHERE t.rank = b.rank AND t.phase <> 'eval' AND t.dataset_id IS NOT NULL)
), told AS (
    SELECT p.*, count(*) AS samples, count(t.sample) AS value,
        -- numbers of which several samples are alike may be alike in another set too
        count(t.sample) FILTER (m.within > 1) AS repeated
    FROM passes p
    JOIN (SELECT DISTINCT rank, stage, loader_id, field, sample FROM samples WHERE evaluated) s
        ON s.rank = p.rank AND s.loader_id = p.loader_id
    LEFT JOIN train t ON t.rank = s.rank AND t.stage = s.stage AND t.sample = s.sample
    LEFT JOIN times m ON m.rank = s.rank AND m.stage = s.stage AND m.field IS NOT DISTINCT FROM s.field
        AND m.sample = s.sample
    GROUP BY ALL
), others AS (
    -- what else is evaluated: only after the last step of the training, and of other samples
    SELECT s.rank, s.loader_id, min(s.step) AS first_, count(DISTINCT s.sample) AS samples,
        count(DISTINCT t.sample) AS trained
    FROM samples s LEFT JOIN train t ON t.rank = s.rank AND t.stage = s.stage AND t.sample = s.sample
    WHERE s.evaluated
    GROUP BY s.rank, s.loader_id
)
SELECT p.rank, p.step, p.value, p.samples, percent_of_whole(p.value, p.samples) AS percent, p.place, p.text,
    'as_validation' AS by_, 'own_view' AS remedy, 'error' AS severity
FROM told p
WHERE p.samples >= $enough
  AND p.value >= $all_of_them * p.samples
  AND p.repeated <= $share * p.samples
  AND p.rank IN (SELECT rank FROM others o
      WHERE o.samples >= $enough AND o.trained < $share * o.samples)
  AND NOT EXISTS (FROM others o WHERE o.rank = p.rank AND o.loader_id IS DISTINCT FROM p.loader_id
      AND o.first_ <= (SELECT max(b.step) FROM batches b WHERE b.rank = p.rank AND b.phase <> 'eval'))
  AND p.rank NOT IN (SELECT rank FROM own_split)
-- detector: steps_on_the_validation_set
WITH drawn AS (
    -- steps with the batch of one loader
    SELECT b.rank, b.loader_id, b.step, any_value(b.epoch) AS epoch, max(b.batch_size) AS size,
        bool_or(s.stepped) AS stepped, list_sort(list(DISTINCT s.optimizer_id)) AS optimizers
    FROM batches b
    JOIN steps s ON s.rank = b.rank AND s.step = b.step
    WHERE b.phase <> 'eval' AND b.loader_id IS NOT NULL
    GROUP BY b.rank, b.loader_id, b.step
    QUALIFY count(*) OVER (PARTITION BY b.rank, b.step) = 1
), loaders AS (
    SELECT rank, loader_id, min(step) AS step, max(step) AS last_, count(DISTINCT epoch) AS passes,
        count(*) FILTER (stepped) AS steps, count(*) AS batches, mode(optimizers) AS optimizers,
        -- of one pass
        sum(size) / count(DISTINCT epoch) AS samples
    FROM drawn GROUP BY rank, loader_id
), called AS (
    SELECT e.rank, (e.detail ->> '$.loader_id')::INT AS loader_id, any_value(e.detail ->> '$.place') AS place,
        any_value(e.detail ->> '$.text') AS text
    FROM events e WHERE e.event = 'called-validation' GROUP BY ALL
)
SELECT v.rank, v.step, round(v.samples)::BIGINT AS value, round(v.samples)::BIGINT AS samples,
    percent_of_whole(v.samples, v.samples) AS percent, v.steps, c.place, c.text,
    'own_steps' AS by_, 'no_steps' AS remedy, 'error' AS severity
FROM loaders v
JOIN called c ON c.rank = v.rank AND c.loader_id = v.loader_id
WHERE v.passes >= $bouts
  AND v.steps >= $fresh * v.batches
  AND EXISTS (FROM loaders t
      WHERE t.rank = v.rank AND t.optimizers = v.optimizers AND t.step < v.last_ AND v.step < t.last_
        AND (t.rank, t.loader_id) NOT IN (SELECT (rank, loader_id) FROM called))
-- detector: unread_split
WITH whole AS (
    SELECT e.rank, (e.detail ->> '$.loader_id')::INT AS loader_id, e.detail ->> '$.split' AS split,
        any_value(e.detail ->> '$.place') AS place
    FROM events e WHERE e.event = 'whole-of-split' GROUP BY ALL
), read AS (
    -- loaders of one data set have one number
    SELECT w.rank, w.split, w.place, b.phase = 'eval' AS evaluated, b.epoch, b.step, b.batch_index,
        max(b.batch_size) AS size
    FROM whole w JOIN batches b ON b.rank = w.rank AND b.loader_id = w.loader_id
    GROUP BY ALL
), uses AS (
    SELECT rank, split, place, evaluated, min(step) AS step,
        round(sum(size) / count(DISTINCT epoch))::BIGINT AS samples
    FROM read
    GROUP BY rank, split, place, evaluated
)
SELECT v.rank, v.step, v.samples AS value, v.samples, percent_of_whole(v.samples, v.samples) AS percent,
    v.place,
    'unread_split' AS by_, 'read_the_parts' AS remedy, 'error' AS severity
FROM uses v
JOIN uses t ON t.rank = v.rank AND t.split = v.split AND v.evaluated AND NOT t.evaluated
WHERE NOT EXISTS (FROM events e
    WHERE e.rank = v.rank AND e.event = 'part-of-split' AND e.detail ->> '$.split' = v.split)
-- together
QUALIFY row_number() OVER (PARTITION BY rank ORDER BY step, value DESC) = 1
ORDER BY step, rank
