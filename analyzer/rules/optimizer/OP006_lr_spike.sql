/*
code = "OP006"
name = "lr-spike"
severity = "error"
phase = "optimizer"
signal = "lr"
message = "{what_}."
fix = "{remedy}"
explains = ["lr-too-high", "loss-off-course", "exploding-gradients", "nonfinite-values", "dead-relu", "saturated-activation", "exploding-activations", "gradients-vanish", "plateau", "nonfinite-operator", "shuffled-labels", "representation-collapse", "attention-entropy-collapse"]
[say.harm_]
became_nonfinite = "then loss or gradients became non-finite"
loss_rose = "the loss rose from a median of {loss_median} to {loss_soon}"
weights_were_replaced = "that one step moved the weights by {moved:.3g} of their own size, {usually:.3g} being usual"
rate_came_back = "the update ratio went from {ratio_median:.3g} to {update_ratio:.3g} and the rate came back"
[say.what_]
jumped = "The learning rate jumped at step {step} from {lr_before} to {value}; {harm_}. That is {factor} times the highest of the {earlier} steps before ({highest_before})"
falls_behind_the_warm_up = "The learning rate rises evenly to {lr_before} in a warm-up of {earlier} steps. At step {step} it falls to {value} at once, 1/{factor} of that, and goes on from there: the schedule behind the warm-up begins at another rate than the warm-up ends with"
[say.remedy]
schedule = "Check the schedule and what sets param_groups at step {step}. It may be a wrong unit or exponent, a scheduler stepped with the wrong argument, or a restored configuration."
same_rate = "Let the warm-up end at the rate that the schedule begins with: warm up to the optimizer's lr, not to a multiple of it."
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
[params.warm_up]
value = 10
unit = "steps"
doc = "Rows of a warm-up."
source = "convention: of this project, fewer steps are no warm-up"
[params.uneven]
value = 1.5
unit = "times"
doc = "Steepest rise of a warm-up over its flattest. Tests of a range of rates rise by a factor in each step."
source = "convention: of this project, rows that lie apart round a line"
[params.fall]
value = 3
unit = "times"
doc = "How far the rate falls behind it."
source = "convention: of this project, milestones lower a rate by ten or by two, and follow no rise"
[params.smooth]
value = 0.1
unit = "relative"
doc = "How far the next rate lies from the one to which it fell."
source = "convention: of this project, a schedule moves less in one step"
[needs]
tables = ["steps", "param_groups"]
columns = ["param_groups.lr"]
steps = 6
[doc]
what = "The learning rate of a parameter group exceeds all its earlier values by a factor in a single step. The loss leaves its band, or that one step replaces a third of the weights. Or the rate comes back as suddenly while the weights moved more than before. Or the rate rises evenly from the start. At the end of this warm-up it falls by a factor at once, and never comes near its peak again."
why = "One step at a hundred times the rate can undo the training."
not_this = "Warm-up (rises smoothly), one-cycle and cyclic schedules, restarts to an earlier peak. A higher constant rate after a first stage that the loss follows without harm. A rate of zero before."
source = "Own schedule: the maximum of all steps before; harm by the loss's own robust band."
*/
-- detector: jump
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
        WHEN replaced THEN 'weights_were_replaced' ELSE 'rate_came_back' END AS harm_,
    'jumped' AS what_, 'schedule' AS remedy
FROM judged WHERE breaks OR loss_left OR replaced OR came_back
-- detector: behind_the_warm_up
WITH rates AS (
    SELECT rank, optimizer_id, group_id, step, lr, lag(lr) OVER w AS lr_before,
        (lr - lag(lr) OVER w) / (step - lag(step) OVER w) AS slope, row_number() OVER w AS n,
        lead(lr) OVER w AS next_lr, max(lr) OVER after_ AS highest_after, count(*) OVER after_ AS later
    FROM param_groups
    WINDOW w AS (PARTITION BY rank, optimizer_id, group_id ORDER BY step),
        after_ AS (PARTITION BY rank, optimizer_id, group_id
            ORDER BY step ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)
), ends AS (
    -- the first fall of the rate
    SELECT rank, optimizer_id, group_id, min(n) AS n
    FROM rates WHERE slope < 0 GROUP BY rank, optimizer_id, group_id
)
SELECT r.rank, r.step, NULL::VARCHAR AS module, NULL::VARCHAR AS tensor, r.lr AS value, r.lr_before,
    round(r.lr_before / r.lr)::BIGINT AS factor, r.step AS earlier, r.optimizer_id, r.group_id,
    'falls_behind_the_warm_up' AS what_, 'same_rate' AS remedy
FROM rates r JOIN ends e USING (rank, optimizer_id, group_id, n)
WHERE r.lr > 0 AND r.lr_before >= $fall * r.lr AND r.later >= $warm_up
  AND abs(r.next_lr - r.lr) <= $smooth * r.lr AND 2 * r.highest_after <= r.lr_before
  AND (SELECT count(*) >= $warm_up AND min(w.slope) > 0 AND max(w.slope) <= $uneven * min(w.slope)
      FROM rates w
      WHERE w.rank = r.rank AND w.optimizer_id = r.optimizer_id AND w.group_id = r.group_id AND w.n < r.n)
-- together
ORDER BY step, rank, optimizer_id, group_id
