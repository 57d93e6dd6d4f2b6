/*
code = "OP014"
name = "token-weighted-accumulation"
severity = "error"
phase = "backward"
signal = "valid_targets"
message = "From step {step} on microbatches with {fewest} to {most} valid targets get the same weight. A target in the smallest counts {value} times as much as one in the largest."
fix = "Sum the losses (reduction='sum') and divide by the number of valid targets of all microbatches of the step."
seeks = ["batches: role = 'target' AND ignored_count IS NOT NULL AND microbatch IS DISTINCT FROM 0"]
[params.ratio]
value = 2.0
unit = "times"
doc = "How unequal the microbatches of a step must be."
source = "convention: of this project, means of parts that differ by less are close to the mean of all"
[params.least]
value = 3
unit = "steps"
doc = "Steps in which they are."
source = "convention: of this project, one step may be odd"
[params.same]
value = 0.99
doc = "Least weight over the largest, of equal ones."
source = "convention: of this project, rounding"
[needs]
tables = ["batches", "steps"]
columns = ["batches.loss_gradient", "batches.ignored_count"]
steps = 3
[doc]
what = "Mean losses are accumulated with equal weights over microbatches. Their numbers of targets that count differ by a factor of two, step after step."
why = "The mean of means is not the mean: short microbatches pull as hard as long ones."
not_this = "Equal numbers, sums divided by the total, a single short last batch."
source = "Arithmetic; how unequal is a choice."
*/
WITH one AS (
    SELECT rank FROM param_groups GROUP BY rank HAVING count(DISTINCT optimizer_id) = 1
), passes AS (
    SELECT b.rank, b.step, b.microbatch, max(abs(b.loss_gradient)) AS weight,
        arg_max(s.numel - b.ignored_count, abs(b.loss_gradient)) AS valid,
        any_value(b.reduction) AS reduction,
        bool_or(b.batch_index = b.loader_batches - 1) AS last_of_epoch
    FROM batches b
    JOIN tensor_stats s ON s.rank = b.rank AND s.step = b.step AND s.seq = b.seq AND s.tensor_id = b.tensor_id
    WHERE b.role = 'target'
      AND b.loss_gradient IS NOT NULL
      AND b.ignored_count IS NOT NULL
      AND b.phase <> 'eval'
    GROUP BY b.rank, b.step, b.microbatch
), uneven AS (
    -- the last batch of an epoch holds what is left
    SELECT p.rank, p.step, max(valid) / min(valid) AS value, min(valid) AS fewest, max(valid) AS most,
        count(*) AS microbatches
    FROM passes p JOIN one USING (rank) WHERE NOT coalesce(last_of_epoch, false)
    GROUP BY p.rank, p.step
    HAVING count(*) >= 2
        AND min(weight) > $same * max(weight)
        AND min(reduction) = 'mean'
        AND max(reduction) = 'mean'
        AND min(valid) > 0
        AND max(valid) >= $ratio * min(valid)
), often AS (
    SELECT rank FROM uneven GROUP BY rank HAVING count(*) >= $least
)
SELECT u.* FROM uneven u JOIN often USING (rank) ORDER BY u.step, u.rank
