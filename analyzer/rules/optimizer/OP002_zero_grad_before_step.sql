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
SELECT rank, step, optimizer_id, calls, CASE WHEN grad_norm IS NULL THEN 'no gradient' ELSE 'gradients of zero' END AS value, microbatches
FROM steps
WHERE stepped AND microbatches >= 1 AND coalesce(grad_norm, 0) = 0 AND regexp_matches(calls, 'b[^bs]*z[^bs]*s')
ORDER BY step, rank, optimizer_id
