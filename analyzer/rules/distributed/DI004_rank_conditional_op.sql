/*
code = "DI004"
name = "rank-conditional-op"
severity = "error"
phase = "optimizer"
signal = "grad_norm"
message = "At step {step} all ranks had the same gradients before clipping (norm {value}), but {what_}. The weights differ from here on."
fix = "Clip, scale and step on every rank alike. Put no `if rank == 0` around code that changes gradients, learning rate or weights. Let no rank decide by its own loss: reduce it over the ranks first."
seeks = ["steps: rank <> 0"]
explains = ["ranks-diverged", "loss-off-course", "plateau", "shuffled-labels"]
[say.what_]
some_clipped = "only some ranks clipped them"
rates_differed = "learning rates ran from {lowest_lr} to {highest_lr}"
gradients_were_changed = "they were changed on some ranks before the optimizer used them"
one_left_it_out = "rank {rank} left its step out"
several_left_it_out = "{left_out} ranks left their step out"
[params.rounding]
value = 1e-5
unit = "relative"
doc = "Share by which two norms of the same values may differ."
source = "convention: of this project, rounding of float32 in another order"
[needs]
tables = ["tensor_stats", "steps"]
kinds = ["parameter", "gradient"]
[doc]
what = "In the step after which the ranks differ, the norms before clipping were equal. Then clipping or the learning rate differed, or not all ranks made the step."
why = "What is done to averaged gradients on one rank alone undoes the averaging."
not_this = "Gradients that already differ (ddp-bypassed, ddp-hooks-lost), weights that one rank changed outside the step (ranks-diverged)."
source = "Replicas that start equal and get the same update stay equal to the last bit."
*/
WITH told AS (
    SELECT s.step, max(s.norm) AS value, list(DISTINCT s.clip_norm IS NOT NULL) AS clipped,
        list(DISTINCT s.lr ORDER BY s.lr) AS rates
    FROM step_series s
    GROUP BY s.step
), left_out AS (
    -- the weights of a rank that does not step are not measured: what differs is seen at the next step that
    -- all ranks make
    SELECT s.step, max(s.norm) AS value, list(s.rank ORDER BY s.rank) FILTER (NOT s.stepped) AS ranks
    FROM step_series s, divergence_of_ranks d
    WHERE s.step <= d.step
      AND s.step > coalesce((SELECT max(e.step) FROM replica_steps e WHERE e.step < d.step), -1)
      AND s.rank IN (SELECT o.rank FROM step_series o WHERE o.stepped)
    GROUP BY s.step
    HAVING count(*) = (SELECT count(DISTINCT rank) FROM steps)
        AND bool_or(s.stepped)
        AND NOT bool_and(s.stepped)
        AND max(s.norm) - min(s.norm) <= $rounding * max(s.norm)
)
SELECT d.step, NULL::INTEGER AS rank, r.module, r.tensor, t.value,
    t.rates[1] AS lowest_lr, t.rates[-1] AS highest_lr,
    CASE WHEN len(t.clipped) > 1 THEN 'some_clipped' WHEN len(t.rates) > 1 THEN 'rates_differed'
        ELSE 'gradients_were_changed' END AS what_
FROM divergence_of_ranks d JOIN told t ON t.step = d.step
JOIN replicas r ON r.step = d.step AND r.kind = 'parameter' AND r.differs
WHERE NOT d.norms_differ AND (d.gradients_differ OR len(t.rates) > 1)
QUALIFY row_number() OVER (ORDER BY r.call_order NULLS LAST, r.tensor) = 1
UNION ALL BY NAME
SELECT l.step, CASE WHEN len(l.ranks) = 1 THEN l.ranks[1] END AS rank, r.module, r.tensor, l.value,
    len(l.ranks) AS left_out,
    CASE WHEN left_out = 1 THEN 'one_left_it_out' ELSE 'several_left_it_out' END AS what_
FROM left_out l, divergence_of_ranks d
JOIN replicas r ON r.step = d.step AND r.kind = 'parameter' AND r.differs
QUALIFY row_number() OVER (ORDER BY l.step, r.call_order NULLS LAST, r.tensor) = 1
ORDER BY step
