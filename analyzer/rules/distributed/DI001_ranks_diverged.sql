/*
code = "DI001"
name = "ranks-diverged"
severity = "error"
phase = "optimizer"
signal = "sum"
message = "After step {step} {value} of {all_} parameters are no longer the same on all {ranks} ranks, first {tensor}: the replicas train apart from here on."
fix = "Look for what one rank does alone at step {step}: code under `if rank == 0` that touches weights, a random generator, a checkpoint loaded by one rank only. Assert equality of a checksum of the weights across ranks every so often."
explains = ["loss-spike", "divergence", "shuffled-labels", "plateau"]
[needs]
tables = ["tensor_stats", "steps"]
kinds = ["parameter"]
[doc]
what = "Parameters that were equal on all ranks, or that DistributedDataParallel keeps equal, differ after a step and never meet again; or parameters that were never equal although all ranks have equal gradients in every step."
why = "Averaged gradients are of use only where they are applied to the same weights."
not_this = "Shards (neither they nor their gradients were ever equal), ranks that train apart and average their weights now and then, buffers."
source = "Replicas that start equal and get the same update stay equal to the last bit."
*/
SELECT d.step, NULL::INTEGER AS rank, r.module, r.tensor, d.tensors AS value, (SELECT count(*) FROM replicas a WHERE a.step = d.step AND a.kind = 'parameter') AS all_,
    (SELECT count(DISTINCT rank) FROM steps) AS ranks, r.norm_least, r.norm_most
FROM divergence_of_ranks d JOIN replicas r ON r.step = d.step AND r.kind = 'parameter' AND r.differs
QUALIFY row_number() OVER (ORDER BY r.call_order NULLS LAST, r.tensor) = 1
