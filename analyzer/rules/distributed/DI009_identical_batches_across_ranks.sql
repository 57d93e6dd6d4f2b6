/*
code = "DI009"
name = "identical-batches-across-ranks"
severity = "error"
phase = "data"
signal = "fingerprint"
message = "From step {step} on {ranks} ranks train on the same batches ({value} of {steps_} steps). So {ranks} processes do the work of one."
fix = "Give the DataLoader a DistributedSampler (and call its set_epoch), or shard an IterableDataset by rank."
seeks = ["steps: rank <> 0", "collectives: op = 'DistributedDataParallel'"]
explains = []
[params.least]
value = 5
unit = "steps"
doc = "Steps in which the batches are equal."
source = "convention: of this project, fewer are the last batch of a small data set"
[needs]
tables = ["batches", "steps", "collectives"]
[doc]
what = "Under DistributedDataParallel every rank's inputs have the same fingerprint in step after step, while they change from step to step."
why = "Gradients of equal batches are equal; their average is the gradient of one rank."
not_this = "Tensor and pipeline parallelism, which feed the same batch on purpose and are not wrapped by DistributedDataParallel. A data set of one batch."
source = "Fingerprints of content."
*/
WITH inputs AS (
    SELECT b.rank, b.step, hash(list(b.fingerprint ORDER BY b.seq)) AS print FROM batches b
    WHERE b.role = 'input' AND b.phase = 'data' AND b.fingerprint IS NOT NULL GROUP BY b.rank, b.step
), world AS (
    SELECT count(DISTINCT rank) AS ranks FROM steps
), steps_ AS (
    SELECT step, count(DISTINCT print) = 1
        AND count(*) = (SELECT ranks FROM world) AS same, min(print) AS print
    FROM inputs
    GROUP BY step
    HAVING count(*) = (SELECT ranks FROM world)
), since AS (
    SELECT coalesce(max(step) FILTER (NOT same), -1) AS apart FROM steps_
)
SELECT min(s.step) AS step, 0 AS rank, count(*) AS value, count(*) AS steps_,
    (SELECT ranks FROM world) AS ranks
FROM steps_ s, since
WHERE s.step > since.apart
  AND (SELECT ranks FROM world) > 1
  AND EXISTS (SELECT 1 FROM collectives WHERE op = 'DistributedDataParallel')
HAVING count(*) >= $least AND count(DISTINCT s.print) > 1
