/*
code = "DI002"
name = "ddp-bypassed"
severity = "error"
phase = "backward"
signal = "grad_norm"
message = "At step {step} backward ran on {bypassing} of {ranks} ranks without a call of DistributedDataParallel. The gradients were not averaged (norms from {least} to {most} before clipping), and the weights differ from here on."
fix = "Call the wrapped model (`ddp(x)`), not `model` or `ddp.module`; with accumulation leave no_sync() for the last microbatch of a step."
seeks = ["steps: rank <> 0", "divergence_of_ranks: wrapped AND norms_differ"]
explains = ["ranks-diverged", "loss-off-course", "plateau", "rank-conditional-op", "shuffled-labels"]
[needs]
tables = ["tensor_stats", "steps", "collectives"]
kinds = ["parameter"]
[doc]
what = "A model was wrapped by DistributedDataParallel. In a step after which the ranks differ, some rank ran backward without calling the wrapper, or only inside no_sync."
why = "The wrapper's forward is what arms the averaging of gradients."
not_this = "Steps under no_sync that end with a synchronised microbatch, ranks whose weights stay equal."
source = "Documentation of DistributedDataParallel; gradients that were averaged are equal on all ranks."
*/
SELECT d.step, NULL::INTEGER AS rank, '' AS module, n.bypassing AS value, n.bypassing, n.ranks, n.least,
    n.most
FROM divergence_of_ranks d
JOIN (
    SELECT s.step, count(DISTINCT s.rank) AS ranks, min(s.norm) AS least, max(s.norm) AS most,
        count(DISTINCT s.rank) FILTER (NOT EXISTS (SELECT 1
            FROM collectives c
            WHERE c.rank = s.rank AND c.step = s.step AND c.op = 'DistributedDataParallel')) AS bypassing
    FROM step_series s WHERE s.microbatches > 0 GROUP BY s.step
) n ON n.step = d.step
WHERE d.wrapped AND d.norms_differ AND n.bypassing > 0
