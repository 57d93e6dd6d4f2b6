/*
code = "OP002"
name = "zero-grad-before-step"
severity = "error"
phase = "optimizer"
signal = "grad_norm"
message = "At step {step} the gradients were cleared between backward and optimizer.step ({calls}: b backward, z zero_grad, s step): the optimizer saw {value}."
fix = "Call optimizer.zero_grad() before backward or after step, never between them."
explains = ["silent-backend-noop", "frozen-by-zero-gradient", "plateau", "underfit", "shuffled-labels"]
[needs]
tables = ["steps"]
columns = ["steps.calls"]
[doc]
what = "A zero_grad after the last backward and before optimizer.step, and a step that found no gradient or only zeros."
why = "The step is made of nothing: weights stay, or only decay and momentum move them."
not_this = "zero_grad of another optimizer or model (GAN), after which this optimizer's gradients are still there; closures."
source = "Order of calls; no threshold."
*/
WITH lost AS (
    -- backward passes before it in the same iteration that a zero_grad has cleared as well: a probe between backward and step
    SELECT rank, step, max(step) FILTER (NOT cleared) OVER (PARTITION BY rank ORDER BY step ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS last_kept
    FROM (SELECT rank, step, bool_and(NOT stepped AND regexp_matches(coalesce(calls, ''), 'b[^bs]*z[^bs]*$')) AS cleared FROM steps GROUP BY ALL)
)
SELECT s.rank, coalesce(l.last_kept + 1, s.step) AS step, s.optimizer_id, s.calls, CASE WHEN s.grad_norm IS NULL THEN 'no gradient' ELSE 'gradients of zero' END AS value, s.microbatches
FROM steps s JOIN lost l ON l.rank = s.rank AND l.step = s.step
WHERE s.stepped AND s.microbatches >= 1 AND coalesce(s.grad_norm, 0) = 0 AND regexp_matches(s.calls, 'b[^bs]*z[^bs]*s')
ORDER BY step, s.rank, s.optimizer_id
