/*
code = "DA009"
name = "repeated-batch-order"
severity = "error"
phase = "data"
signal = "fingerprint"
message = "{what_} the same {batches} batches in the same order as the epoch before, {although_}: every epoch is the same."
fix = "Call sampler.set_epoch(epoch), or mix with a generator that is not seeded again in each epoch. Set seeds once, before the loop. Keep one iterator over all epochs where an epoch is a part of the data. Save the random states with each checkpoint, and restore them on a resume."
seeks = [
    "batches: phase = 'data' AND (loader_id IS NOT NULL AND (epoch <> 0 OR loader_id <> 0) OR loader_id IS NULL AND role = 'input')",
]
[say.what_]
sampler_repeats = "Epoch {epoch} of the loader hands out"
seed_repeats = "After torch.manual_seed at step {step} come"
cut_short = "Each of {passes} passes over the loader hands out"
resumes_repeat = "After {passes} resumes, the first at step {step}, the loader hands out"
[say.although_]
cut_short = "and is left before the other {rest}, which are never read"
sampler_repeats = "although its sampler mixes the samples"
seed_repeats = "since the seed is the same again"
resumes_repeat = "since the random state is seeded again and that of the checkpoint is not restored"
[params.least]
value = 4
unit = "batches"
doc = "Batches of an epoch."
source = "arithmetic: four batches have 24 orders: one in 24 repeats by chance"
[params.half]
value = 0.5
unit = "of the batches"
doc = "Share of the batches of an epoch that must differ from each other."
source = "arithmetic: a majority is more than a half"
[params.passes]
value = 3
unit = "passes"
doc = "Passes that are left after the same number of batches, with the last."
source = "convention: of this project, two may be a trial and the training"
[params.parts]
value = 2
unit = "times"
doc = "Batches of the loader over those of a pass, at least."
source = "arithmetic: more is never read than is read"
[needs]
tables = ["batches"]
columns = ["batches.fingerprint"]
[doc]
what = "A training loader's sequence of batches repeats exactly from epoch to epoch, while the order of its samples is mixed. Or batches without a loader come again in the same order after each torch.manual_seed with the same number. Or after each resume within the run a loader that mixes begins with the batches of the very first epoch. Or every pass over a loader that does not mix is left at the same place, and none goes further, while other data is evaluated to its end. It is advice unless the passes together are as long as the loader."
why = "The mixing that stochastic gradients need happens once; batches keep their company for ever."
not_this = "A loader that is not shuffled on purpose (its indices ascend: no rule warns of it), and is read to its end. Trials on the first batches without an evaluation of other data. Streams whose length is not known. Evaluation, epochs of one to three batches. Trials under one seed that each have a model of their own."
source = "Equality of fingerprints."
*/
-- detector: order_repeats
WITH fields AS (
    SELECT rank, loader_id, epoch, batch_index, min(step) AS step,
        -- the order is that of the samples, whatever augmentation makes of them
        coalesce(hash(any_value(sample_indices))::HUGEINT, min(fingerprint)::HUGEINT) AS fingerprint,
        any_value(sample_indices) AS indices
    FROM batches
    WHERE loader_id IS NOT NULL AND fingerprint IS NOT NULL AND phase = 'data' AND epoch IS NOT NULL
      AND field = (SELECT min(field)
          FROM batches f
          WHERE f.rank = batches.rank AND f.loader_id = batches.loader_id)
    GROUP BY rank, loader_id, epoch, batch_index
), epochs AS (
    SELECT rank, loader_id, epoch, min(step) AS step, list(fingerprint ORDER BY batch_index) AS prints,
        count(*) AS batches, count(DISTINCT fingerprint) AS different,
        bool_or(indices IS NOT NULL AND len(indices) > 1 AND indices <> list_sort(indices)) AS mixed
    FROM fields GROUP BY rank, loader_id, epoch
), inputs AS (
    -- batches that the script cut by itself, one for each step
    SELECT rank, step, arg_min(fingerprint, seq) AS fingerprint FROM batches
    WHERE role = 'input'
      AND phase = 'data'
      AND loader_id IS NULL
      AND fingerprint IS NOT NULL
      AND microbatch = 0
    GROUP BY rank, step
), seeds AS (
    SELECT DISTINCT rank, step, detail FROM events WHERE event = 'seeded'
), stretches AS (
    SELECT rank, step, detail, lead(step) OVER (PARTITION BY rank ORDER BY step) AS next_ FROM seeds
), passes AS (
    SELECT s.rank, s.step, s.detail, lag(s.step) OVER w AS before,
        lag(s.next_ - s.step) OVER w AS length_before, s.next_ - s.step AS length,
        list(i.fingerprint ORDER BY i.step) AS prints,
            lag(list(i.fingerprint ORDER BY i.step)) OVER w AS prints_before
    FROM stretches s
    JOIN inputs i ON i.rank = s.rank AND i.step >= s.step AND i.step < coalesce(s.next_, i.step + 1)
    GROUP BY s.rank, s.step, s.detail, s.next_ WINDOW w AS (PARTITION BY s.rank, s.detail ORDER BY s.step)
)
SELECT e.rank, e.step, e.epoch, e.batches, e.epoch AS value,
    'sampler_repeats' AS what_, what_ AS although_, 'error' AS severity
FROM epochs e
JOIN epochs p ON p.rank = e.rank AND p.loader_id = e.loader_id AND p.epoch = e.epoch - 1
WHERE e.batches >= $least
  AND e.different > $half * e.batches
  AND e.mixed
  AND list_slice(p.prints, 1, e.batches) = e.prints
UNION ALL BY NAME
SELECT rank, step, len(prints) AS batches, step AS value, 'seed_repeats' AS what_, what_ AS although_,
    'error' AS severity
FROM passes
-- another model from there on: each trial of a search is to see the same
WHERE NOT EXISTS (FROM handovers h
    WHERE h.rank = passes.rank AND h.fresh AND h.step > passes.before AND h.step <= passes.step + 1)
  AND len(prints) >= $least
    AND list_slice(prints_before, 1, len(prints)) = prints
    AND len(list_distinct(prints)) > $half * len(prints)
-- detector: resumes_repeat
WITH resumes AS (
    SELECT DISTINCT rank, step FROM checkpoints
    WHERE action = 'optimizer' AND step > 0 AND state_step >= $least
), begun AS (
    -- what each pass over data of one length begins with
    SELECT b.rank, b.loader_id, b.epoch, any_value(b.dataset_length) AS length, min(b.step) AS step,
        list(hash(b.sample_indices) ORDER BY b.batch_index) AS prints,
        bool_or(b.sample_indices <> list_sort(b.sample_indices)) AS mixed
    FROM batches b
    WHERE b.loader_id IS NOT NULL AND b.phase = 'data' AND b.sample_indices IS NOT NULL
      AND len(b.sample_indices) > 1 AND b.batch_index < $least
      AND b.field = (SELECT min(field) FROM batches f WHERE f.rank = b.rank AND f.loader_id = b.loader_id)
    GROUP BY b.rank, b.loader_id, b.epoch HAVING count(*) = $least
), firsts AS (
    SELECT rank, length, arg_min(prints, step) AS prints FROM begun WHERE mixed GROUP BY rank, length
)
SELECT r.rank, min(r.step) AS step, $least AS batches, count(*) AS passes, count(*) AS value,
    'resumes_repeat' AS what_, 'resumes_repeat' AS although_, 'error' AS severity
FROM resumes r
JOIN begun b ON b.rank = r.rank AND b.step = r.step
JOIN firsts f ON f.rank = b.rank AND f.length IS NOT DISTINCT FROM b.length
GROUP BY r.rank, b.length
HAVING count(*) >= $passes AND bool_and(b.prints = f.prints)
-- detector: passes_cut_short
WITH loaders AS (
    SELECT rank, loader_id, bool_or(phase <> 'eval') AS trains, max(epoch) + 1 AS passes,
        arg_max(left_passes, epoch) AS left_passes, arg_max(left_after, epoch) AS batches,
        max(batch_index) + 1 AS furthest, min(step) FILTER (epoch >= 1) AS step,
        -- none where two loaders of one data set differ in it
        CASE WHEN min(loader_batches) = max(loader_batches) THEN max(loader_batches) END AS of_all
    FROM batches
    WHERE loader_id IS NOT NULL AND epoch IS NOT NULL
    GROUP BY rank, loader_id
), cut AS (
    SELECT * FROM loaders
    WHERE trains AND passes >= $passes AND left_passes = passes - 1
      AND batches >= $least AND furthest <= batches AND of_all >= $parts * batches
), prints AS (
    SELECT b.rank, b.loader_id, b.batch_index, b.field, count(DISTINCT b.epoch) AS times,
        count(DISTINCT b.fingerprint) AS different, any_value(b.fingerprint) AS fingerprint
    FROM batches b SEMI JOIN cut c ON c.rank = b.rank AND c.loader_id = b.loader_id
    WHERE b.phase = 'data' AND b.fingerprint IS NOT NULL
      AND b.role <> 'target'
    GROUP BY b.rank, b.loader_id, b.batch_index, b.field
), same AS (
    SELECT rank, loader_id FROM prints WHERE times >= 2 GROUP BY rank, loader_id
    HAVING max(different) = 1
       AND count(DISTINCT batch_index) >= $least
       AND count(DISTINCT fingerprint) > $half * count(DISTINCT batch_index)
)
SELECT c.rank, c.step, c.passes, c.batches, c.of_all - c.batches AS rest, c.passes AS value,
    'cut_short' AS what_, 'cut_short' AS although_,
    CASE WHEN c.of_all // c.passes = c.batches THEN 'error' ELSE 'warning' END AS severity
FROM cut c SEMI JOIN same s ON s.rank = c.rank AND s.loader_id = c.loader_id
-- a trial whether the model can learn a few batches evaluates no others
WHERE EXISTS (FROM loaders e
    WHERE e.rank = c.rank AND e.loader_id <> c.loader_id AND NOT e.trains AND e.passes >= 2
      AND e.left_passes = 0)
-- together
ORDER BY step, rank
