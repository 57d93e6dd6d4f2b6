/*
code = "DI003"
name = "ddp-hooks-lost"
severity = "error"
phase = "backward"
signal = "grad_norm"
message = "Gradients are no longer averaged. At step {step} every rank called DistributedDataParallel, yet the gradients of {value} of {all_} parameters differ between ranks. The first is {tensor}."
fix = "Do not replace parameters, move the model or change its dtype after wrapping it; if you must, wrap it again. New layers belong into the model before it is wrapped."
seeks = ["steps: rank <> 0", "divergence_of_ranks: wrapped AND norms_differ"]
explains = ["ranks-diverged", "loss-off-course", "plateau", "shuffled-labels"]
[needs]
tables = ["tensor_stats", "steps", "collectives"]
kinds = ["parameter", "gradient"]
[doc]
what = "The wrapper was called on all ranks in the step after which they differ, and gradients before clipping differ."
why = "DistributedDataParallel hooks the parameters that it found when it was made; others are not averaged."
not_this = "A wrapper that was not called (ddp-bypassed), clipping on one rank alone (rank-conditional-op). Micro-batches behind the one that is averaged, under no_sync (ranks-diverged)."
source = "Gradients that were averaged are equal on all ranks."
*/
SELECT d.step, NULL::INTEGER AS rank, r.module, r.tensor,
    (SELECT count(*) FILTER (a.differs)
        FROM replicas a
        WHERE a.step = d.step AND a.kind = 'gradient') AS value,
    (SELECT count(*) FROM replicas a WHERE a.step = d.step AND a.kind = 'gradient') AS all_, r.norm_least,
        r.norm_most
FROM divergence_of_ranks d JOIN replicas r ON r.step = d.step AND r.kind = 'gradient' AND r.differs
WHERE d.wrapped AND d.norms_differ AND d.synced_ranks = (SELECT count(DISTINCT rank) FROM steps)
  -- the last micro-batch ran under no_sync, so that it is not averaged at all
  AND NOT EXISTS (
      FROM steps s WHERE s.step = d.step AND s.microbatches - 1 > (SELECT max(c.microbatch)
          FROM collectives c
          WHERE c.rank = s.rank AND c.step = s.step AND c.op = 'DistributedDataParallel'))
QUALIFY row_number() OVER (ORDER BY r.call_order NULLS LAST, r.tensor) = 1
