/*
code = "DI004"
name = "rank-conditional-op"
severity = "error"
phase = "optimizer"
signal = "grad_norm"
message = "At step {step} all ranks had the same gradients before clipping (norm {value}), but {what_}: the weights differ from here on."
fix = "Clip, scale and step on every rank alike: no `if rank == 0` round what changes gradients, learning rate or weights."
explains = ["ranks-diverged", "loss-spike", "divergence", "plateau", "shuffled-labels"]
[needs]
tables = ["tensor_stats", "steps"]
kinds = ["parameter", "gradient"]
[doc]
what = "In the step after which the ranks differ the norms before clipping were equal, and then clipping or the learning rate differed."
why = "What is done to averaged gradients on one rank alone undoes the averaging."
not_this = "Gradients that already differ (ddp-bypassed, ddp-hooks-lost), weights that one rank changed outside the step (ranks-diverged)."
source = "Replicas that start equal and get the same update stay equal to the last bit."
*/
WITH told AS (
    SELECT s.step, max(s.norm) AS value, list(DISTINCT s.clip_norm IS NOT NULL) AS clipped, list(DISTINCT s.lr ORDER BY s.lr) AS rates FROM step_series s GROUP BY s.step
)
SELECT d.step, NULL::INTEGER AS rank, r.module, r.tensor, t.value,
    CASE WHEN len(t.clipped) > 1 THEN 'only some ranks clipped them'
        WHEN len(t.rates) > 1 THEN printf('learning rates ran from %.4g to %.4g', t.rates[1], t.rates[-1])
        ELSE 'they were changed on some ranks before the optimizer used them' END AS what_
FROM divergence_of_ranks d JOIN told t ON t.step = d.step
JOIN replicas r ON r.step = d.step AND r.kind = 'parameter' AND r.differs
WHERE NOT d.norms_differ AND (d.gradients_differ OR len(t.rates) > 1)
QUALIFY row_number() OVER (ORDER BY r.call_order NULLS LAST, r.tensor) = 1
