/*
code = "OP022"
name = "divergence"
severity = "error"
is = ["loss-off-course"]
phase = "loss"
signal = "loss"
message = "From step {step} on the loss stays above its band: median {rest_median} over the last {rest_rows} steps, never below {rest_low}. In the steps before the median was {loss_median}. The gradient norm reached {near_norm} after {norm_median}.{at_once_}"
fix = "Compare what changed first at step {step}. It may be the samples and their labels, or the mode of the model. It may be the terms of the loss, the learning rate, or the update ratio. {remedy_}"
seeks = ["divergences: true"]
explains = ["loss-spike", "nonfinite-metric"]
generic = true
reach = 40
slack = 2
[say.at_once_]
updates_as_usual = " The updates before it had moved the weights no further than usual: what changed at that step is the batch, or what is computed from it."
[say.remedy_]
not_the_rate = "A lower learning rate does not help."
go_back = "Go back to a checkpoint before it and lower the learning rate or clip gradients."
[params.short]
value = 30
unit = "steps"
doc = "Steps after it, fewer than which do not show whether a loss that is falling comes back."
source = "convention: of this project, a loss that falls needs some tens of steps to come back"
[params.once]
value = 0.5
doc = "Share of the rise that must have come at its first step. Then the updates before it did not cause it."
source = "convention: of this project, more than half of the rise"
[params.usual]
value = 2.0
unit = "times"
doc = "Length of those updates, beside their median, up to which they were as all the others."
source = "own history"
[params.half]
value = 0.5
unit = "of the steps"
doc = "Where the second half of what follows begins."
source = "arithmetic"
[params.raised]
value = 1.5
unit = "times"
doc = "Rise of the learning rate up to which it is not what changed."
source = "own history"
[params.updates]
value = 3
unit = "updates"
doc = "Updates before the rise that moved the weights no further than usual."
source = "own history"
[params.before]
value = 12
unit = "steps"
doc = "Steps before the rise, and as many from it on, that are compared."
source = "own history"
[params.asked]
value = 1.5
unit = "times"
doc = "How far a metric called curriculum or difficulty goes on to rise."
source = "own history"
[params.logged]
value = 8
unit = "times"
doc = "Values, or steps of one make, that tell a change from chance."
source = "own history"
[params.grown]
value = 1.4
unit = "times"
doc = "Growth of the targets that is one."
source = "own history"
[params.leap]
value = 3
unit = "times"
doc = "Growth of the targets at once that is a batch or a unit that is wrong."
source = "own history"
[params.more_labels]
value = 1.15
unit = "times"
doc = "Growth of the labels' entropy that is a task with more labels."
source = "own history"
[params.unlearnt]
value = 1.5
unit = "times"
doc = "Loss over the labels' entropy of a model that does not yet know the new labels."
source = "arithmetic"
[params.back]
value = 0.9
unit = "times"
doc = "Loss of the second half over that of the first, where it was on its way back."
source = "own history"
[params.way]
value = 30
unit = "steps"
doc = "How far back the forwards and backwards of a step are compared."
source = "own history"
[needs]
tables = ["steps"]
columns = ["steps.loss"]
steps = 18
[doc]
what = "From one step to the end of the run the loss stays far above its own history. That is ten robust sigmas and twice its level in the median. The gradients left their history too."
why = "The training has lost what it had learnt."
not_this = "Spikes that come back or were on their way when the run ended. A new task or harder data whose loss falls again by half. Targets that grow gradually and take the loss with them. Another loss that takes over at that step and is learnt from. It may be one of other forwards and backwards (adversarial examples). A target network that takes over the weights of the model at that step. Noise near a floor that is small against the loss at the start. GAN and reinforcement losses inside what they have ever been. Advice where a model makes its data itself, as an agent does."
source = "Own history, robust: median and MAD over the 30 steps before; see the view divergences."
*/
-- shared
WITH halves AS (
    -- the level of the loss in the first and in the second half of what follows
    SELECT rank, optimizer_id, begun, median(loss) FILTER (n <= $half * steps) AS at_first,
        median(loss) FILTER (n > $half * steps) AS then_
    FROM (
        SELECT v.rank, v.optimizer_id, v.step AS begun, s.loss, row_number() OVER (w ORDER BY s.step) AS n,
            count(*) OVER w AS steps
        FROM divergences v
        JOIN optimizer_series s ON s.rank = v.rank
            AND s.optimizer_id IS NOT DISTINCT FROM v.optimizer_id
            AND s.step >= v.step
            AND isfinite(s.loss)
        WINDOW w AS (PARTITION BY v.rank, v.optimizer_id, v.step))
    GROUP BY rank, optimizer_id, begun
), dated AS (
    SELECT v.*, h.at_first, h.then_,
        -- the weights that this loss was computed with are those that the updates before have made
        coalesce(v.loss - v.loss_median > $once * (v.rest_median - v.loss_median)
            AND v.lr <= $raised * v.lr_before
            AND (SELECT max(u.update_ratio) FILTER (u.n >= v.n - $updates) <= $usual * median(u.update_ratio)
                AND count(u.update_ratio) FILTER (u.n >= v.n - $updates) = $updates
                FROM optimizer_series u
                WHERE u.rank = v.rank
                  AND u.optimizer_id = v.optimizer_id
                  AND u.n BETWEEN v.n - $before AND v.n - 1), false) AS at_once
    FROM divergences v
    LEFT JOIN halves h ON h.rank = v.rank
        AND h.optimizer_id IS NOT DISTINCT FROM v.optimizer_id
        AND h.begun = v.step
)
-- detector: left_for_good
SELECT d.*
FROM dated d
-- the values that a Q network learns grow with those of its target network
WHERE NOT EXISTS (FROM target_syncs t WHERE t.rank = d.rank AND t.step BETWEEN d.step - 2 AND d.step)
-- the script logs that it asks for more and more: a curriculum
  AND NOT EXISTS (SELECT 1
      FROM metrics m
      WHERE m.rank = d.rank AND regexp_matches(lower(m.name), 'curriculum|difficulty') AND isfinite(m.value)
    GROUP BY m.name
    HAVING arg_max(m.value, m.step) > $asked * max(m.value) FILTER (m.step <= d.step) AND count(*) >= $logged)
-- a task with more labels has a higher loss from there on: the loss of a model that knows nothing of the
-- input is the entropy of the labels
  AND NOT EXISTS (
    -- in units of its targets the loss has not risen: what is asked for has grown
    SELECT 1
    FROM batch_fields b
    WHERE b.rank = d.rank
      AND b.role = 'target'
      AND b.loss_op IN ('MseLoss', 'SmoothL1Loss', 'HuberLoss')
      AND b.phase <> 'eval'
      AND b.rms > 0
      AND b.step >= d.step - $before
    GROUP BY b.rank
    HAVING d.rest_median / d.loss_median < 2
        * (median(b.rms) FILTER (b.step >= d.step) / median(b.rms) FILTER (b.step < d.step)) ** CASE
        WHEN any_value(b.loss_op) = 'MseLoss' THEN 2
        ELSE 1
        END
        AND median(b.rms) FILTER (b.step >= d.step) > $grown * median(b.rms) FILTER (b.step < d.step)
        -- and grows gradually: a leap is a batch or a unit that is wrong
        AND max(b.rms) FILTER (b.step BETWEEN d.step AND d.step + 2) < $leap * max(b.rms)
            FILTER (b.step < d.step))
  AND NOT EXISTS (
    SELECT 1
    FROM batches b
    WHERE b.rank = d.rank
      AND b.role = 'target'
      AND b.entropy IS NOT NULL
      AND b.phase <> 'eval'
      AND b.step BETWEEN d.step - $before AND d.step + $before - 1
    GROUP BY b.rank
    HAVING median(b.entropy) FILTER (b.step >= d.step) > $more_labels * median(b.entropy)
        FILTER (b.step < d.step)
        AND d.rest_median < $unlearnt * median(b.entropy) FILTER (b.step >= d.step))
  AND NOT coalesce(
    -- a run that ends soon after, by whatever else, with a loss that was on its way back
    d.rest_rows < $short AND d.then_ < $back * d.at_first, false)
  AND NOT coalesce(
    -- another loss takes over at that very step, or other forwards and backwards make it up from there on,
    -- and it is learnt from: its level says nothing about the one before
    (EXISTS (
        SELECT 1 FROM (
            SELECT b.loss_op, min(b.step) AS first, max(b.step) AS last, count(DISTINCT b.step) AS steps
            FROM batches b
            WHERE b.rank = d.rank AND b.role = 'target' AND b.phase <> 'eval' AND b.loss_op IS NOT NULL
            GROUP BY b.loss_op) o
        WHERE (o.last = d.step - 1 OR o.first = d.step) AND o.steps >= $logged)
      OR (SELECT count(*) FILTER (c.step < d.step - 2) >= $logged
          AND count(*) FILTER (c.step > d.step + 2) >= $logged
              AND len(list_intersect(list(DISTINCT c.made) FILTER (c.step < d.step - 2),
                  list(DISTINCT c.made) FILTER (c.step > d.step + 2))) = 0
          FROM (SELECT s.step,
              regexp_replace(string_agg(s.calls, '' ORDER BY s.optimizer_id), '[^fb]', '', 'g') AS made
              FROM steps s
              WHERE s.rank = d.rank AND s.step >= d.step - $way AND s.calls IS NOT NULL GROUP BY s.step) c))
    AND d.then_ < d.at_first, false)
-- together
SELECT rank, step, NULL::VARCHAR AS module, NULL::VARCHAR AS tensor, loss AS value, loss_median, loss_sigma,
    rest_median, rest_low, rest_rows, rest_breaks,
    norm, norm_median, near_norm, lr, lr_before, update_ratio, optimizer_id,
    CASE WHEN at_once THEN 'updates_as_usual' END AS at_once_,
    CASE WHEN at_once THEN 'not_the_rate' ELSE 'go_back' END AS remedy_,
    -- few steps with other data show harder data as well
    CASE
        -- a model that makes its data itself, in train mode without gradients: what it is to learn grows with
        -- what it can do
        WHEN rank IN (FROM acting_models) THEN 'warning'
        WHEN rest_rows < $short
        AND EXISTS (FROM data_changes c
            WHERE c.rank = d.rank
              AND c.step BETWEEN d.step - 1 AND d.step + 1) THEN 'warning' ELSE 'error' END AS severity
FROM found d
ORDER BY step, rank, optimizer_id
