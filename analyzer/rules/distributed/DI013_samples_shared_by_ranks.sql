/*
code = "DI013"
name = "samples-shared-by-ranks"
severity = "error"
phase = "data"
signal = "sample_indices"
message = "From step {step} on ranks draw from different orders of the data. Of {seen} recorded samples of epoch {epoch}, {shared} ({percent} %) went to more than one of {ranks} ranks. Each rank has only its share, so as many others go to none."
fix = "Give the DistributedSampler of every rank the same seed and the same epoch in set_epoch. Each takes its share out of one common order. Only augmentation may differ by rank."
seeks = [
    "batches: rank <> 0 AND phase = 'data' AND loader_id IS NOT NULL AND len(sample_indices) > 0",
    "collectives: op = 'DistributedDataParallel'",
]
explains = []
[params.least]
value = 32
unit = "samples"
doc = "Samples of an epoch that went to more than one rank."
source = "convention: of this project, more than the few that a sampler repeats to fill up the last batch"
[params.share]
value = 0.05
doc = "The same, as a share of those that were seen."
source = "arithmetic: a sampler repeats at most as many as there are ranks. Shares out of two orders have a half in common for two ranks, an eighth for eight"
[params.part]
value = 0.8
unit = "of the samples"
doc = "Share of all indices up to which a rank is taken to have a share of the data only."
source = "arithmetic: of two ranks each has a half"
[params.steps]
value = 2000
unit = "steps"
doc = "First steps that are looked at."
source = "convention: of this project, samplers are set up once; an epoch of so many steps shows what they share"
[needs]
tables = ["batches", "steps", "collectives"]
[doc]
what = "Under DistributedDataParallel several ranks trained on the same samples of one epoch, by their indices. No rank goes through all the data, and none draws a sample twice."
why = "Shares of different orders overlap: some samples count twice in an epoch, and others never come."
not_this = "Ranks that each go through all the data; sampling with replacement; the few samples that fill up the last batch."
source = "DistributedSampler's documentation: the seed should be identical across all processes."
*/
WITH looked_at AS (
    -- fields of one batch carry the same indices
    SELECT rank, loader_id, epoch, batch_index, min(step) AS step, any_value(sample_indices) AS sample_indices
    FROM batches
    WHERE phase = 'data' AND loader_id IS NOT NULL AND len(sample_indices) > 0 AND step < $steps
        AND (SELECT count(DISTINCT rank) FROM steps) > 1
        AND EXISTS (FROM collectives WHERE op = 'DistributedDataParallel')
    GROUP BY rank, loader_id, epoch, batch_index
), apart AS (
    -- ranks that are at different epochs in the same step count them otherwise
    SELECT DISTINCT loader_id FROM looked_at GROUP BY loader_id, step HAVING count(DISTINCT epoch) > 1
), drawn AS (
    SELECT rank, loader_id, epoch, step, unnest(sample_indices) AS sample
    FROM looked_at WHERE loader_id NOT IN (FROM apart)
), by_rank AS (
    SELECT rank, loader_id, epoch, count(*) AS drawn, count(DISTINCT sample) AS different
    FROM drawn
    GROUP BY ALL
), loaders AS (
    -- all indices that anybody has seen, in any epoch
    SELECT loader_id, max(sample) + 1 AS samples FROM drawn GROUP BY loader_id
), shares AS (
    SELECT r.loader_id, r.epoch, count(*) AS ranks
    FROM by_rank r
    JOIN loaders l ON l.loader_id = r.loader_id
    GROUP BY r.loader_id, r.epoch
    HAVING count(*) > 1 AND bool_and(r.drawn = r.different) AND max(r.drawn) <= $part * any_value(l.samples)
), counted AS (
    SELECT d.loader_id, d.epoch, d.sample, min(d.step) AS step, count(DISTINCT d.rank) AS ranks
    FROM drawn d JOIN shares s ON s.loader_id = d.loader_id AND s.epoch = d.epoch GROUP BY ALL
), found AS (
    SELECT loader_id, epoch, min(step) AS step, count(*) AS seen, count(*) FILTER (ranks > 1) AS shared
    FROM counted
    GROUP BY loader_id, epoch
)
SELECT 0 AS rank, f.step, f.epoch, f.seen, f.shared, f.shared AS value, s.ranks,
    percent_of(f.shared / f.seen) AS percent
FROM found f
JOIN shares s ON s.loader_id = f.loader_id AND s.epoch = f.epoch
WHERE f.shared >= $least
  AND f.shared >= $share * f.seen
QUALIFY row_number() OVER (ORDER BY f.step, f.loader_id) = 1
