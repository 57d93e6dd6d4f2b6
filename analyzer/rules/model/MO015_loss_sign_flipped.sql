/*
code = "MO015"
name = "loss-sign-flipped"
severity = "error"
phase = "loss"
signal = "loss_gradient"
message = "From step {step} on {loss_op} counts with weight {value} in what is minimised: a negative weight makes the model worse on purpose."
fix = "Minimise the loss itself; look for a minus sign or a maximise=True."
explains = ["divergence", "exploding-gradients", "loss-spike", "underfit", "logit-drift", "lr-too-high", "overfit"]
[needs]
tables = ["batches"]
columns = ["batches.loss_gradient"]
[doc]
what = "A loss that cannot be negative (cross entropy, squared error \u2026) and is the only loss of the step enters the total with a negative weight, in a run with one optimizer."
why = "Gradient descent then climbs: the loss falls without bound below zero while predictions get worse."
not_this = "Adversarial training with several optimizers, a negative loss beside a positive one."
source = "Sign of the gradient that backward brings to the loss operator."
*/
WITH one AS (
    SELECT rank FROM param_groups GROUP BY rank HAVING count(DISTINCT optimizer_id) = 1
), losses AS (
    SELECT b.rank, b.step, b.microbatch, min(b.loss_gradient) AS value, max(b.loss_gradient) AS high, any_value(b.loss_op) AS loss_op
    FROM batches b WHERE b.role = 'target' AND b.loss_gradient IS NOT NULL AND b.phase <> 'eval' AND b.loss_op <> 'KlDiv' GROUP BY b.rank, b.step, b.microbatch
)
SELECT l.rank, l.step, l.microbatch, l.value, l.loss_op FROM losses l JOIN one ON one.rank = l.rank
JOIN (SELECT rank, step, avg(loss) AS loss FROM steps GROUP BY rank, step) s ON s.rank = l.rank AND s.step = l.step
WHERE l.value < 0 AND l.high <= 0 AND s.loss <= 0 ORDER BY l.step, l.rank, l.microbatch
