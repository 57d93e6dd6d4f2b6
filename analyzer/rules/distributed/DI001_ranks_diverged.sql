/*
code = "DI001"
name = "ranks-diverged"
severity = "error"
phase = "optimizer"
signal = "sum"
message = "After step {step} {value} of {all_} parameters {what_} on all {ranks} ranks, first {tensor}. {therefore_}"
fix = "{remedy}"
seeks = ["steps: rank <> 0"]
explains = ["loss-off-course", "shuffled-labels", "plateau"]
[say.remedy]
alone = "Look for what one rank does alone at step {step}. It may be code under `if rank == 0` that touches weights. It may be a random generator, or a checkpoint loaded by one rank only. Or gradients are not averaged at all. Now and then assert that a checksum of the weights is equal across ranks."
last_synced = "Leave no_sync() for the last micro-batch of a step, not for the first: (i + 1) % steps == 0."
[say.what_]
no_longer = "are no longer the same"
averaged_apart = "differ, although their gradients are the same"
[say.therefore_]
no_longer = "From here on the replicas train apart."
last_unsynced = "Of {passes} micro-batches of a step the last ones ran under no_sync(): DistributedDataParallel averages in the backward of micro-batch {synced}, and adds to that what each rank computes alone."
averaged_apart = "Averaged gradients are applied to different weights: these parameters were never made equal."
[params.lasting]
value = 10
unit = "steps"
doc = "Steps in all of which a gradient is the same on all ranks, and its parameter never."
source = "convention: of this project, equal to the last bit by chance is impossible, a short test is not"
[params.rounding]
value = 1e-5
unit = "relative"
doc = "Share by which two sums of the same values may differ."
source = "convention: of this project, rounding of float32 in another order"
[params.ranks]
value = 3
unit = "ranks"
doc = "Ranks from which one can be told to differ from the others."
source = "arithmetic: of two nobody knows which"
[needs]
tables = ["tensor_stats", "steps"]
kinds = ["parameter"]
[doc]
what = "Parameters that were equal on all ranks, or that DistributedDataParallel keeps equal, differ after a step and never meet again. Or parameters were never equal although all ranks have equal gradients in every step. Or some were never equal although their own gradients always were, beside others that each rank has for itself. Or they were never equal although one rank had broadcast all of them. Or they were never equal although a DTensor is placed as Replicate. Or they were never equal beside tensor-parallel layers that all ranks feed with the same batches."
why = "Averaged gradients are of use only where they are applied to the same weights."
not_this = "Shards (placed as such, or neither they nor their gradients were ever equal). Experts of each rank's own (all_to_all), ranks that train apart and average their weights now and then, buffers."
source = "Replicas that start equal and get the same update stay equal to the last bit."
*/
-- detector: no_longer
WITH first_ AS (
    SELECT d.step, r.module, r.tensor, d.tensors AS value, r.norm_least, r.norm_most
    FROM divergence_of_ranks d
    JOIN replicas r ON r.step = d.step AND r.kind = 'parameter' AND r.differs
        AND r.tensor NOT IN (SELECT tensor FROM shards_by_hand)
    QUALIFY row_number() OVER (ORDER BY r.call_order NULLS LAST, r.tensor) = 1
), copies AS (
    SELECT s.rank, s.min, s.max, s.sum, s.sum_sq, s.numel FROM first_ f
    JOIN tensors t ON t.tensor_name = f.tensor AND t.kind = 'parameter'
    JOIN tensor_stats s ON s.rank = t.rank AND s.tensor_id = t.tensor_id AND s.step = f.step
), alike AS (
    SELECT a.rank, count(*) FILTER (b.rank <> a.rank AND a.min = b.min AND a.max = b.max
        AND abs(a.sum - b.sum) <= $rounding * sqrt(a.numel * a.sum_sq)
          AND abs(a.sum_sq - b.sum_sq) <= $rounding * a.sum_sq) AS others
    FROM copies a, copies b GROUP BY a.rank
), last_unsynced AS (
    -- steps whose last micro-batch went through DistributedDataParallel under no_sync
    SELECT s.step, max(s.microbatches) AS passes, max(c.last_) + 1 AS synced
    FROM steps s
    JOIN (SELECT rank, step, max(microbatch) AS last_
        FROM collectives
        WHERE op = 'DistributedDataParallel'
        GROUP BY rank, step) c ON c.rank = s.rank AND c.step = s.step
    GROUP BY s.step HAVING bool_and(s.microbatches - 1 > c.last_)
), apart AS (
    -- of three and more ranks that agree but for one, that one
    SELECT min(rank) FILTER (others = 0) AS rank
    FROM alike
    HAVING count(*) >= $ranks AND count(*) FILTER (others = 0) = 1
)
SELECT f.step, (SELECT rank FROM apart) AS rank, f.module, f.tensor, f.value,
    (SELECT count(*) FROM replicas a WHERE a.step = f.step AND a.kind = 'parameter') AS all_,
    (SELECT count(DISTINCT rank) FROM steps) AS ranks, f.norm_least, f.norm_most,
    l.passes, l.synced, 'no_longer' AS what_,
    if(l.passes IS NULL, 'no_longer', 'last_unsynced') AS therefore_,
    if(l.passes IS NULL, 'alone', 'last_synced') AS remedy
FROM first_ f
LEFT JOIN last_unsynced l ON l.step = f.step
-- detector: averaged_apart
WITH same AS (
    SELECT g.tensor, min(g.step) AS step, any_value(p.module) AS module, min(p.call_order) AS call_order,
        arg_min(p.norm_least, p.step) AS norm_least, arg_min(p.norm_most, p.step) AS norm_most
    FROM replicas g
    JOIN replicas p ON p.tensor = g.tensor AND p.step = g.step AND p.kind = 'parameter'
    WHERE g.kind = 'gradient' AND g.norm_most > 0 AND NOT p.placed
      AND g.tensor NOT IN (SELECT tensor FROM shards_by_hand)
    GROUP BY g.tensor
    HAVING count(*) >= $lasting AND bool_and(NOT g.differs) AND bool_and(p.differs)
)
SELECT min(step) AS step, NULL::INTEGER AS rank, arg_min(module, place_of_call(call_order)) AS module,
    arg_min(tensor, place_of_call(call_order)) AS tensor, count(*) AS value,
    (SELECT count(DISTINCT tensor) FROM replicas WHERE kind = 'parameter') AS all_,
    (SELECT count(DISTINCT rank) FROM steps) AS ranks, min(norm_least) AS norm_least,
    max(norm_most) AS norm_most, 'averaged_apart' AS what_, what_ AS therefore_, 'alone' AS remedy
FROM same
WHERE NOT EXISTS (FROM no_longer)
  AND EXISTS (FROM collectives WHERE starts_with(op, 'all_reduce') OR starts_with(op, 'all_gather'))
HAVING count(*) > 0
-- together
ORDER BY step
