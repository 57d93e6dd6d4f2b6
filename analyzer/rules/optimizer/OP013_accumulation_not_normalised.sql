/*
code = "OP013"
name = "accumulation-not-normalised"
severity = "error"
phase = "backward"
signal = "loss_gradient"
message = "From step {step} on {microbatches} microbatches are accumulated and each mean loss counts in full. The gradient is {value} times {of_what_}."
fix = "Divide the loss by the number of microbatches ({microbatches}) before backward."
seeks = ["steps: microbatches >= least(2, $more)"]
explains = ["exploding-gradients", "clip-always-active", "loss-off-course", "nonfinite-tensor", "saturated-activation"]
[say.of_what_]
mean_over_all_samples = "that of the mean over all samples"
steps_before = "that of the steps before"
[params.window]
value = 8
unit = "steps"
doc = "Steps before and after a change of the number of microbatches over which the norms are compared."
source = "arithmetic: a median of eight norms scatters by less than half as much as one"
[params.more]
value = 3
unit = "times"
doc = "How many times as many microbatches."
source = "arithmetic: three times as many make a sum larger by a factor of at least sqrt(3) = 1.7"
[params.root]
value = 0.85
doc = "Growth of the norm over the square root of that number, which sums of independent gradients reach and means never."
source = "convention: of this project, less than the root by the scatter of the norms"
[params.in_full]
value = 0.01
unit = "relative"
doc = "Distance from 1 of a loss that counts in full."
source = "convention: of this project, rounding, and scales that are divided out"
[params.low]
value = 0.75
unit = "of their number"
doc = "Sum of the weights, at least."
source = "convention: of this project, a quarter less is a padded batch"
[params.high]
value = 1.33
unit = "of their number"
doc = "Sum of the weights, at most."
source = "arithmetic: one over three quarters"
[params.even]
value = 0.99
doc = "Least weight over the largest, of equal ones."
source = "convention: of this project, rounding"
[params.most]
value = 1.5
unit = "times"
doc = "Growth of the norm over that of the number, at most."
source = "convention: of this project, half as much again is scatter"
[params.lr_low]
value = 0.8
unit = "times"
doc = "Learning rate over that before, at least."
source = "convention: of this project, schedules change by less from step to step"
[params.lr_high]
value = 1.25
unit = "times"
doc = "The same, at most."
source = "arithmetic: one over four fifths"
[params.loss_low]
value = 0.5
unit = "times"
doc = "Loss over that before, at least."
source = "arithmetic: half"
[params.loss_high]
value = 1.5
unit = "times"
doc = "The same, at most."
source = "convention: of this project, half as much again"
[needs]
tables = ["batches", "steps"]
columns = ["steps.microbatches"]
[doc]
what = "Several backward passes on different batches come before one optimizer step. The weights of their mean losses add up to more than one. Or there are three times as many of them from one step on. From there all gradients are larger than any before, by the factor of a sum. Learning rate and loss are the same."
why = "The gradient and with it the effective learning rate and every clipping threshold scale with the number of microbatches."
not_this = "Losses or gradients divided by the number of microbatches, sums over tokens. Several losses on one batch, several optimizers (GAN), the two losses of a discriminator, a loss scale."
source = "Arithmetic: the weights of mean losses of one mean add up to one."
*/
-- shared
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
    -- a script that changes the gradients itself may divide them there
    WHERE g.rank NOT IN (SELECT rank FROM events WHERE event = 'gradients-scaled')
), inputs AS (
    -- what an autoencoder is given is its target
    SELECT rank, step,
        coalesce(nullif(count(DISTINCT CASE WHEN role = 'input' THEN fingerprint END), 0),
            count(DISTINCT fingerprint)) AS different
    FROM batches
    WHERE role IN ('input', 'target') AND phase = 'data' AND fingerprint IS NOT NULL GROUP BY rank, step
)
-- detector: weights_sum_up
WITH weights AS (
    -- the largest loss of each microbatch: auxiliary ones have small weights; where the others have larger
    -- ones, the one that counts in full
    SELECT b.rank, b.step, b.microbatch,
        CASE
            WHEN abs(min(abs(b.loss_gradient)) / coalesce(any_value(s.loss_scale),
                1) - 1) < $in_full THEN min(abs(b.loss_gradient))
            ELSE max(abs(b.loss_gradient))
            END AS weight,
        any_value(b.reduction) AS reduction, count(DISTINCT b.reduction) AS kinds
    FROM batches b JOIN steps s ON s.rank = b.rank AND s.step = b.step
    WHERE b.role = 'target' AND b.loss_gradient IS NOT NULL AND b.phase <> 'eval'
    GROUP BY b.rank, b.step, b.microbatch
), two_sided AS (
    -- each batch has one label for all its samples, and not the same one: the two losses of a discriminator
    SELECT rank, step FROM batch_fields
    WHERE role = 'target' AND phase <> 'eval'
    GROUP BY rank, step HAVING bool_and(min = max) AND count(DISTINCT min) > 1
), summed AS (
    SELECT w.rank, w.step, sum(w.weight) / coalesce(any_value(s.loss_scale), 1) AS value, count(*) AS passes,
        any_value(s.microbatches) AS microbatches,
        min(w.weight) / max(w.weight) AS evenness
    FROM weights w JOIN steps s ON s.rank = w.rank AND s.step = w.step AND s.microbatches >= 2
    JOIN one ON one.rank = w.rank AND one.step = w.step
    JOIN inputs i ON i.rank = w.rank AND i.step = w.step AND i.different >= s.microbatches
    WHERE w.reduction = 'mean'
      AND w.kinds = 1
      AND (w.rank, w.step) NOT IN (SELECT (rank, step) FROM two_sided)
    GROUP BY w.rank, w.step
)
SELECT rank, step, value, microbatches, 'mean_over_all_samples' AS of_what_ FROM summed
WHERE passes = microbatches
  AND value > $low * microbatches
  AND value < $high * microbatches
  AND evenness > $even
-- detector: norm_grows_with_them
WITH counted AS (
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
    SEMI JOIN (SELECT rank FROM steps GROUP BY rank HAVING max(microbatches) > min(microbatches)) v
        ON v.rank = s.rank
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
        AND c.then_ < $most * c.microbatches / c.before * c.usual
      AND c.lr > $lr_low * c.lr_before
        AND c.lr < $lr_high * c.lr_before
        AND c.loss_after BETWEEN $loss_low * c.loss_before AND $loss_high * c.loss_before
      AND NOT EXISTS (FROM batches b
          WHERE b.rank = c.rank AND b.step = c.step AND (b.loss_gradient IS NOT NULL OR b.reduction = 'sum'))
)
SELECT *, 'steps_before' AS of_what_ FROM ramped
-- together
ORDER BY step, rank
