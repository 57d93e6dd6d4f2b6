/*
code = "OP032"
name = "accumulation-inverted"
severity = "error"
phase = "optimizer"
signal = "microbatches"
message = "From step {step} on every {value} steps two batches are accumulated, and all other steps take one. So the optimizer steps after {value} of {every} batches. The condition of the accumulation is the wrong way round: `if i % {every}:` is true where i is no multiple of {every}."
fix = "Step where the count is a multiple: if (i + 1) % {every} == 0. Divide each loss by {every}, too."
seeks = ["steps: microbatches = $double AND completed"]
explains = ["accumulation-not-normalised", "clip-always-active"]
[params.least]
value = 5
unit = "times"
doc = "Steps of two batches, each as far from the one before."
source = "convention: of this project, five at one distance are no chance"
[params.share]
value = 0.9
unit = "of the distances"
doc = "Share of the distances between these steps that are the usual one."
source = "convention: of this project, an end of an epoch may shift one of ten"
[params.double]
value = 2
unit = "batches"
doc = "Batches of the step after one that was left out."
source = "arithmetic: its own and that of the pass before"
[params.nearest]
value = 2
unit = "steps"
doc = "Least distance: steps of one batch lie between."
source = "arithmetic: of three batches two make a step"
[params.epoch]
value = 0.5
unit = "of an epoch"
doc = "Distance up to which it is no matter of an epoch's last batch."
source = "arithmetic: at least two of them in every epoch"
[needs]
tables = ["steps", "batches"]
columns = ["steps.microbatches", "batches.batch_index"]
[doc]
what = "One optimizer whose steps take one batch of the loader, but for every k-th step, which takes two. The distance is the same all along, and there are several in every epoch."
why = "Nearly every batch makes a step of its own, and the gradient of every k-th one is doubled. Nothing is accumulated as it was meant, and the updates are noisy."
not_this = "A constant number of batches a step. A second backward on the same batch, such as a penalty at every k-th step. The last batch of an epoch. Several optimizers."
source = "Arithmetic of the remainder: i % n is zero for one batch of n and true for all others."
*/
WITH passes AS (
    SELECT rank, step, count(DISTINCT (loader_id, epoch, batch_index)) AS batches,
        max(loader_batches) AS of_epoch
    FROM batches
    WHERE phase <> 'eval' AND loader_id IS NOT NULL
    GROUP BY rank, step
), taken AS (
    SELECT s.rank, s.step, s.microbatches, p.batches, p.of_epoch
    FROM steps s
    JOIN passes p ON p.rank = s.rank AND p.step = s.step
    WHERE s.completed
      AND (SELECT count(DISTINCT optimizer_id) FROM param_groups g WHERE g.rank = s.rank) = 1
), whole AS (
    -- each pass has a batch of its own
    SELECT rank FROM taken GROUP BY rank
    HAVING bool_and(microbatches BETWEEN 1 AND $double AND batches = microbatches)
       AND sum($double - microbatches) >= sum(microbatches - 1)
), doubled AS (
    SELECT rank, step, of_epoch, step - lag(step) OVER (PARTITION BY rank ORDER BY step) AS distance
    FROM taken WHERE microbatches = $double AND rank IN (FROM whole)
)
SELECT rank, min(step) AS step, mode(distance) AS value, mode(distance) + 1 AS every
FROM doubled
GROUP BY rank
HAVING count(*) > $least
    AND mode(distance) >= $nearest
    AND count(*) FILTER (distance = (SELECT mode(o.distance) FROM doubled o WHERE o.rank = doubled.rank))
        >= $share * (count(*) - 1)
    AND (max(of_epoch) IS NULL OR mode(distance) <= $epoch * max(of_epoch))
ORDER BY step, rank
