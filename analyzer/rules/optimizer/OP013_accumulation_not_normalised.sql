/*
code = "OP013"
name = "accumulation-not-normalised"
severity = "error"
phase = "backward"
signal = "loss_gradient"
message = "From step {step} on {microbatches} microbatches are accumulated and each mean loss counts in full: the gradient is {value} times that of the mean over all samples."
fix = "Divide the loss by the number of microbatches ({microbatches}) before backward."
explains = ["exploding-gradients", "clip-always-active", "divergence", "loss-spike", "nonfinite-tensor", "saturated-activation"]
[needs]
tables = ["batches", "steps"]
columns = ["batches.loss_gradient", "steps.microbatches"]
[doc]
what = "Several backward passes on different batches before one optimizer step, whose mean losses have weights that add up to more than one."
why = "The gradient and with it the effective learning rate and every clipping threshold scale with the number of microbatches."
not_this = "Losses divided by the number of microbatches, sums over tokens, several losses on one batch, several optimizers (GAN), a loss scale."
source = "Arithmetic: the weights of mean losses of one mean add up to one."
*/
WITH spans AS (
    SELECT rank, optimizer_id, min(step) AS first, max(step) AS last FROM param_groups GROUP BY ALL
), one AS (
    -- steps of an optimizer that steps while no other does: one that takes over for a later stage is alone in it
    SELECT DISTINCT g.rank, g.step FROM param_groups g
    ANTI JOIN (
        SELECT DISTINCT a.rank, a.optimizer_id FROM spans a JOIN spans b ON b.rank = a.rank AND b.optimizer_id <> a.optimizer_id AND b.first <= a.last AND b.last >= a.first
    ) shared ON shared.rank = g.rank AND shared.optimizer_id = g.optimizer_id
), weights AS (
    -- the largest loss of each microbatch: auxiliary ones have small weights; where the others have larger ones, the one that counts in full
    SELECT b.rank, b.step, b.microbatch, CASE WHEN abs(min(abs(b.loss_gradient)) / coalesce(any_value(s.loss_scale), 1) - 1) < 0.01 THEN min(abs(b.loss_gradient)) ELSE max(abs(b.loss_gradient)) END AS weight, any_value(b.reduction) AS reduction, count(DISTINCT b.reduction) AS kinds
    FROM batches b JOIN steps s ON s.rank = b.rank AND s.step = b.step
    WHERE b.role = 'target' AND b.loss_gradient IS NOT NULL AND b.phase <> 'eval' GROUP BY b.rank, b.step, b.microbatch
), inputs AS (
    SELECT rank, step, count(DISTINCT fingerprint) AS different FROM batches
    WHERE role = 'input' AND phase = 'data' AND fingerprint IS NOT NULL GROUP BY rank, step
), summed AS (
    SELECT w.rank, w.step, sum(w.weight) / coalesce(any_value(s.loss_scale), 1) AS value, count(*) AS passes, any_value(s.microbatches) AS microbatches,
        min(w.weight) / max(w.weight) AS evenness
    FROM weights w JOIN steps s ON s.rank = w.rank AND s.step = w.step AND s.microbatches >= 2
    JOIN one ON one.rank = w.rank AND one.step = w.step JOIN inputs i ON i.rank = w.rank AND i.step = w.step AND i.different >= s.microbatches
    WHERE w.reduction = 'mean' AND w.kinds = 1
    GROUP BY w.rank, w.step
)
SELECT rank, step, value, microbatches FROM summed
WHERE passes = microbatches AND value > 0.75 * microbatches AND value < 1.33 * microbatches AND evenness > 0.99
ORDER BY step, rank
