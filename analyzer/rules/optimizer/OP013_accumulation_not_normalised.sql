/*
code = "OP013"
name = "accumulation-not-normalised"
severity = "error"
phase = "backward"
signal = "loss_gradient"
message = "From step {step} on {microbatches} microbatches are accumulated and each mean loss counts in full: the gradient is {value} times {of_what_}."
fix = "Divide the loss by the number of microbatches ({microbatches}) before backward."
explains = ["exploding-gradients", "clip-always-active", "divergence", "loss-spike", "nonfinite-tensor", "saturated-activation"]
[params.window]
value = 8
unit = "steps"
doc = "Steps before and after a change of the number of microbatches over which the norms are compared."
[params.more]
value = 3
unit = "times"
doc = "How many times as many microbatches."
[params.root]
value = 0.85
doc = "Growth of the norm over the square root of that number, which sums of independent gradients reach and means never."
[needs]
tables = ["batches", "steps"]
columns = ["steps.microbatches"]
[doc]
what = "Several backward passes on different batches before one optimizer step, whose mean losses have weights that add up to more than one; or three times as many of them from one step on, from which all gradients are larger than any before by what a sum makes of them, at the same learning rate and loss."
why = "The gradient and with it the effective learning rate and every clipping threshold scale with the number of microbatches."
not_this = "Losses divided by the number of microbatches, sums over tokens, several losses on one batch, several optimizers (GAN), a loss scale."
source = "Arithmetic: the weights of mean losses of one mean add up to one."
*/
WITH spans AS (
    SELECT rank, optimizer_id, min(step) AS first, max(step) AS last FROM param_groups GROUP BY ALL
), one AS (
    -- steps of an optimizer that steps while no other does: one that takes over for a later stage is alone in
    -- it
    SELECT DISTINCT g.rank, g.step FROM param_groups g
    ANTI JOIN (
        SELECT DISTINCT a.rank, a.optimizer_id
        FROM spans a
        JOIN spans b ON b.rank = a.rank
            AND b.optimizer_id <> a.optimizer_id
            AND b.first <= a.last
            AND b.last >= a.first
    ) shared ON shared.rank = g.rank AND shared.optimizer_id = g.optimizer_id
), weights AS (
    -- the largest loss of each microbatch: auxiliary ones have small weights; where the others have larger
    -- ones, the one that counts in full
    SELECT b.rank, b.step, b.microbatch,
        CASE
            WHEN abs(min(abs(b.loss_gradient)) / coalesce(any_value(s.loss_scale),
                1) - 1) < 0.01 THEN min(abs(b.loss_gradient))
            ELSE max(abs(b.loss_gradient))
            END AS weight,
        any_value(b.reduction) AS reduction, count(DISTINCT b.reduction) AS kinds
    FROM batches b JOIN steps s ON s.rank = b.rank AND s.step = b.step
    WHERE b.role = 'target' AND b.loss_gradient IS NOT NULL AND b.phase <> 'eval'
    GROUP BY b.rank, b.step, b.microbatch
), inputs AS (
    SELECT rank, step, count(DISTINCT fingerprint) AS different FROM batches
    WHERE role = 'input' AND phase = 'data' AND fingerprint IS NOT NULL GROUP BY rank, step
), summed AS (
    SELECT w.rank, w.step, sum(w.weight) / coalesce(any_value(s.loss_scale), 1) AS value, count(*) AS passes,
        any_value(s.microbatches) AS microbatches,
        min(w.weight) / max(w.weight) AS evenness
    FROM weights w JOIN steps s ON s.rank = w.rank AND s.step = w.step AND s.microbatches >= 2
    JOIN one ON one.rank = w.rank AND one.step = w.step
    JOIN inputs i ON i.rank = w.rank AND i.step = w.step AND i.different >= s.microbatches
    WHERE w.reduction = 'mean' AND w.kinds = 1
    GROUP BY w.rank, w.step
)
, counted AS (
    -- the number of microbatches changes: a mean over more of them has no larger gradient, a sum has one
    -- larger by the root of their number
    -- at least; for losses that the recording does not see, which scripts write by hand
    SELECT s.rank, s.step, s.optimizer_id, s.microbatches, s.grad_norm, s.loss, g.lr,
        row_number() OVER w AS n,
        lag(s.microbatches) OVER w AS before, count(*) OVER earlier AS rows_before,
            count(*) OVER later AS rows_after,
        min(s.microbatches) OVER earlier AS least_before, max(s.microbatches) OVER earlier AS most_before,
            min(s.microbatches) OVER later AS least_after, max(s.microbatches) OVER later AS most_after,
        median(s.grad_norm) OVER earlier AS usual, max(s.grad_norm) OVER earlier AS highest,
            median(s.grad_norm) OVER later AS then_, min(s.grad_norm) OVER later AS lowest,
        median(s.loss) OVER earlier AS loss_before, median(s.loss) OVER later AS loss_after,
            lag(g.lr) OVER w AS lr_before
    FROM steps s JOIN one ON one.rank = s.rank AND one.step = s.step
    -- few runs ever change it, and medians of all steps are dear
    SEMI JOIN (SELECT rank FROM steps GROUP BY rank HAVING max(microbatches) > min(microbatches)) v ON v.rank = s.rank
    JOIN (SELECT rank, step, max(lr) AS lr FROM param_groups GROUP BY ALL) g ON g.rank = s.rank
        AND g.step = s.step
    WHERE s.stepped
      AND isfinite(s.grad_norm)
      AND s.grad_norm > 0
      AND s.microbatches > 0
      AND s.clip_norm IS NULL
    WINDOW w AS (PARTITION BY s.rank, s.optimizer_id ORDER BY s.step),
        earlier AS (PARTITION BY s.rank, s.optimizer_id
            ORDER BY s.step ROWS BETWEEN $window PRECEDING AND 1 PRECEDING),
        later AS (PARTITION BY s.rank, s.optimizer_id
            ORDER BY s.step ROWS BETWEEN CURRENT ROW AND ($window - 1) FOLLOWING)
), ramped AS (
    SELECT c.rank, c.step, c.then_ / c.usual AS value, c.microbatches
    FROM counted c JOIN inputs i ON i.rank = c.rank AND i.step = c.step AND i.different >= c.microbatches
    WHERE c.rows_before = $window
      AND c.rows_after = $window
      AND c.least_before = c.most_before
      AND c.least_after = c.most_after
      AND c.microbatches >= $more * c.before
      AND c.lowest > c.highest
        AND c.then_ > $root * sqrt(c.microbatches / c.before) * c.usual
        AND c.then_ < 1.5 * c.microbatches / c.before * c.usual
      AND c.lr > 0.8 * c.lr_before
        AND c.lr < 1.25 * c.lr_before
        AND c.loss_after BETWEEN 0.5 * c.loss_before AND 1.5 * c.loss_before
      AND NOT EXISTS (FROM batches b
          WHERE b.rank = c.rank AND b.step = c.step AND (b.loss_gradient IS NOT NULL OR b.reduction = 'sum'))
)
SELECT rank, step, value, microbatches, 'that of the mean over all samples' AS of_what_ FROM summed
WHERE passes = microbatches
  AND value > 0.75 * microbatches
  AND value < 1.33 * microbatches
  AND evenness > 0.99
UNION ALL BY NAME SELECT *, 'that of the steps before' AS of_what_ FROM ramped
ORDER BY step, rank
