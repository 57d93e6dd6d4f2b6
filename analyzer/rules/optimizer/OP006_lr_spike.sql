/*
code = "OP006"
name = "lr-spike"
severity = "error"
phase = "optimizer"
signal = "lr"
message = "The learning rate jumped at step {step} from {lr_before} to {value}; {harm_}. That is {factor} times the highest of the {earlier} steps before ({highest_before})."
fix = "Check the schedule and what sets param_groups at step {step}. It may be a wrong unit or exponent, a scheduler stepped with the wrong argument, or a restored configuration."
explains = ["lr-too-high", "loss-off-course", "exploding-gradients", "nonfinite-values", "dead-relu", "saturated-activation", "exploding-activations", "gradients-vanish", "plateau", "nonfinite-operator", "shuffled-labels", "representation-collapse", "attention-entropy-collapse"]
[say.harm_]
became_nonfinite = "then loss or gradients became non-finite"
loss_rose = "the loss rose from a median of {loss_median} to {loss_soon}"
weights_were_replaced = "that one step moved the weights by {moved:.3g} of their own size, {usually:.3g} being usual"
rate_came_back = "the update ratio went from {ratio_median:.3g} to {update_ratio:.3g} and the rate came back"
[params.factor]
value = 5.0
unit = "times"
doc = "Above every learning rate before, and above that of the step before."
source = "own history"
[params.absurd]
value = 50.0
unit = "times"
doc = "No schedule raises a rate by this factor in one step: a third of the harm is then enough."
source = "convention: of this project, warm restarts raise a rate by less, and a warm-up takes many steps"
[params.earlier]
value = 5
unit = "steps"
doc = "Steps before it; a run begins as it likes."
source = "convention: of this project, a run begins as it likes"
[params.replaced]
value = 0.3
unit = "‖ΔW‖/‖W‖"
doc = "An update of this share of the weights' own size replaces what they had learnt, whatever the loss does."
source = "convention: of this project, an update of that size replaces weights rather than tunes them"
[params.recent]
value = 12
unit = "steps"
doc = "Steps before, from which it is told what is usual."
source = "convention: of this project, the window of the view optimizer_series"
[params.later]
value = 20
unit = "steps"
doc = "Steps after it in which it comes back."
source = "convention: of this project, as many as show a level"
[params.third]
value = 3
doc = "Share of the harm that is enough after an absurd rise, one over this."
source = "convention: of this project, a third"
[params.unusual]
value = 10
unit = "times"
doc = "Update over the usual one."
source = "own history"
[params.width]
value = 0.05
unit = "of the loss"
doc = "Least width of the scatter of the loss."
source = "convention: of this project, a twentieth of its level"
[params.coming]
value = 10
unit = "steps"
doc = "Steps after it in which the loss shows what it did."
source = "convention: of this project, its harm shows within a few steps"
[params.band]
value = 8
unit = "robust sigmas"
doc = "Rise of the loss beside its scatter."
source = "own history"
[params.rise]
value = 0.3
unit = "of the loss"
doc = "Rise of the loss beside its level."
source = "convention: of this project, a third"
[params.again]
value = 3
unit = "times"
doc = "Update over the usual one, above which it has not come back."
source = "own history"
[needs]
tables = ["steps", "param_groups"]
columns = ["param_groups.lr"]
steps = 6
[doc]
what = "The learning rate of a parameter group exceeds all its earlier values by a factor in a single step. The loss leaves its band, or that one step replaces a third of the weights. Or the rate comes back as suddenly while the weights moved more than before."
why = "One step at a hundred times the rate can undo the training."
not_this = "Warm-up (rises smoothly), one-cycle and cyclic schedules, restarts to an earlier peak. A higher constant rate after a first stage that the loss follows without harm. A rate of zero before."
source = "Own schedule: the maximum of all steps before; harm by the loss's own robust band."
*/
WITH rates AS (
    SELECT rank, optimizer_id, group_id, step, lr, update_norm / nullif(weight_norm, 0) AS own_ratio,
        median(finite(update_norm / nullif(weight_norm, 0))) OVER (PARTITION BY rank, optimizer_id, group_id
            ORDER BY step ROWS BETWEEN $recent PRECEDING AND 1 PRECEDING) AS own_usual,
        lag(lr) OVER w AS lr_before, max(lr) OVER past AS highest_before, count(lr) OVER past AS earlier,
        min(lr) OVER soon AS lowest_soon
    FROM param_groups
    WINDOW
        w AS (PARTITION BY rank, optimizer_id, group_id ORDER BY step),
        past AS (PARTITION BY rank, optimizer_id, group_id
            ORDER BY step ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
        soon AS (PARTITION BY rank, optimizer_id, group_id
            ORDER BY step ROWS BETWEEN 1 FOLLOWING AND $later FOLLOWING)
), jumps AS (
    -- a small group is lost among the others: what counts is how far its own weights went
    SELECT *, lr / highest_before AS factor,
        coalesce(own_ratio > CASE
            WHEN lr > $absurd * highest_before THEN $replaced / $third
            ELSE $replaced
            END
            AND own_ratio > $unusual * own_usual, false) AS own_replaced
    FROM rates
    WHERE earlier >= $earlier
      AND highest_before > 0
      AND isfinite(lr)
      AND lr > $factor * highest_before
      AND lr > $factor * lr_before
), effects AS (
    SELECT rank, optimizer_id, step, loss_median, update_ratio, ratio_median, loss_start,
        max(finite(loss)) OVER soon AS loss_soon,
        bool_or(is_nonfinite(loss) OR is_nonfinite(norm)) OVER soon AS breaks,
        greatest(loss_sigma, $width * abs(loss_median)) AS spread
    FROM optimizer_series
    WINDOW soon AS (PARTITION BY rank, optimizer_id ORDER BY n ROWS BETWEEN CURRENT ROW AND $coming FOLLOWING)
), judged AS (
    SELECT j.*, e.loss_median, e.loss_soon, e.update_ratio, e.ratio_median,
        coalesce(e.breaks, false) AS breaks,
        coalesce(e.loss_soon > e.loss_median + $band * e.spread
            AND e.loss_soon > e.loss_median + $rise * abs(e.loss_median), false) AS loss_left,
        j.own_replaced
            OR coalesce(e.update_ratio > $replaced
                AND e.update_ratio > $unusual * e.ratio_median, false) AS replaced,
        CASE WHEN j.own_replaced THEN j.own_ratio ELSE e.update_ratio END AS moved,
            CASE WHEN j.own_replaced THEN j.own_usual ELSE e.ratio_median END AS usually,
        j.lowest_soon <= 2 * j.highest_before
            AND coalesce(e.update_ratio > $again * e.ratio_median, true) AS came_back
    FROM jumps j LEFT JOIN effects e USING (rank, optimizer_id, step)
)
SELECT rank, step, NULL::VARCHAR AS module, NULL::VARCHAR AS tensor, lr AS value, lr_before, highest_before,
    factor, earlier, optimizer_id, group_id,
    update_ratio, ratio_median, loss_median, loss_soon, moved, usually,
    CASE WHEN breaks THEN 'became_nonfinite' WHEN loss_left THEN 'loss_rose'
        WHEN replaced THEN 'weights_were_replaced' ELSE 'rate_came_back' END AS harm_
FROM judged WHERE breaks OR loss_left OR replaced OR came_back
ORDER BY step, rank, optimizer_id, group_id
