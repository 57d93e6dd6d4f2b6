/*
code = "DA009"
name = "repeated-batch-order"
severity = "error"
phase = "data"
signal = "fingerprint"
message = "{what_} the same {batches} batches in the same order as the epoch before, {although_}: every epoch is the same."
fix = "Call sampler.set_epoch(epoch), or mix with a generator that is not seeded again in each epoch. Set seeds once, before the loop."
seeks = ["batches: phase = 'data' AND (loader_id IS NOT NULL AND epoch <> 0 OR loader_id IS NULL AND role = 'input')"]
[say.what_]
sampler_repeats = "Epoch {epoch} of the loader hands out"
seed_repeats = "After torch.manual_seed at step {step} come"
[say.although_]
sampler_repeats = "although its sampler mixes the samples"
seed_repeats = "since the seed is the same again"
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
[needs]
tables = ["batches"]
columns = ["batches.fingerprint"]
[doc]
what = "A training loader's sequence of batches repeats exactly from epoch to epoch, while the order of its samples is mixed. Or batches without a loader come again in the same order after each torch.manual_seed with the same number."
why = "The mixing that stochastic gradients need happens once; batches keep their company for ever."
not_this = "A loader that is not shuffled on purpose (its indices ascend: no rule warns of it). Evaluation, epochs of one to three batches. Trials under one seed that each have a model of their own."
source = "Equality of fingerprints."
*/
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
    'sampler_repeats' AS what_, what_ AS although_
FROM epochs e
JOIN epochs p ON p.rank = e.rank AND p.loader_id = e.loader_id AND p.epoch = e.epoch - 1
WHERE e.batches >= $least
  AND e.different > $half * e.batches
  AND e.mixed
  AND list_slice(p.prints, 1, e.batches) = e.prints
UNION ALL BY NAME
SELECT rank, step, len(prints) AS batches, step AS value, 'seed_repeats' AS what_, what_ AS although_
FROM passes
-- another model from there on: each trial of a search is to see the same
WHERE NOT EXISTS (FROM handovers h
    WHERE h.rank = passes.rank AND h.fresh AND h.step > passes.before AND h.step <= passes.step + 1)
  AND len(prints) >= $least
    AND list_slice(prints_before, 1, len(prints)) = prints
    AND len(list_distinct(prints)) > $half * len(prints)
ORDER BY step, rank
