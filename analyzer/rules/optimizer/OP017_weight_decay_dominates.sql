/*
code = "OP017"
name = "weight-decay-dominates"
severity = "error"
phase = "optimizer"
signal = "decay_ratio"
message = "From step {step} on weight decay makes up {percent} % of each update of group {group_id} ({rate_} = {rate}). The norm of the weights fell from {before} to {after}."
fix = "Lower weight_decay ({weight_decay}), or the factor by which the script itself shrinks its weights (multiply it by lr). Leave norms and biases out of it."
explains = ["nothing-learnt", "vanishing-gradients", "representation-collapse", "loss-off-course", "shuffled-labels", "silent-backend-noop"]
[say.rate_]
lr_times_decay = "lr x decay"
decay_without_lr = "decay, without lr,"
own_doing = "lost in each step by the script's own doing"
[params.share]
value = 0.7
doc = "Decay step over whole update."
source = "convention: of this project, more than two thirds of a step is decay"
[params.rate]
value = 1e-3
doc = "lr x weight_decay from which it matters within a run."
source = "arithmetic: a thousand steps shrink weights to a third then"
[params.as_said]
value = 0.25
unit = "relative"
doc = "How closely what the weights lose in a step must equal weight_decay."
source = "convention: of this project, what the gradient adds to it in one step"
[params.gone]
value = 0.1
doc = "Norm of the weights over its largest below which they are gone."
source = "convention: of this project, a tenth of their norm"
[params.least]
value = 8
unit = "steps"
doc = "Steps."
source = "convention: of this project, one step may be odd"
[params.quick]
value = 4
unit = "steps"
doc = "The same, where the weights lose weight_decay itself in each of them and are gone after."
source = "convention: of this project, fewer may be chance"
[params.fall]
value = 0.8
doc = "Norm of the weights at the end over that at the start."
source = "own history"
[params.straight]
value = 0.7
doc = "Share of the update's norm by which the norm of the weights falls, where no weight_decay is set that could do it."
source = "arithmetic: the cosine of 45 degrees; an update at right angles to the weights leaves their norm as it is"
[params.aside]
value = 0.35
doc = "The same, at most, in every step before."
source = "convention: of this project, half of that"
[params.slow]
value = 0.01
unit = "relative"
doc = "What the weights must lose in each of these steps."
source = "arithmetic: a hundredth a step halves weights in 70 steps"
[params.beyond]
value = 1.5
unit = "times the update"
doc = "What the weights lose in each step from the beginning, beside the length of the optimizer's update."
source = "arithmetic: no update shortens weights by more than its own length"
[params.half]
value = 0.5
doc = "Norm of the weights at the end over that at the start, where they shrink from the beginning."
source = "own history"
[params.learnt]
value = 0.1
unit = "relative"
doc = "Fall of the loss from which a training learns in spite of it."
source = "own history"
[params.own_rate]
value = 0.1
doc = "Learning rate from which lr x weight_decay is near to weight_decay itself."
source = "convention: of this project, a tenth"
[params.gathered]
value = 1000
unit = "steps"
doc = "Steps after which momentum has gathered all."
source = "arithmetic: 0.99 to the 1000th is 4e-5"
[params.rest]
value = 0.6
unit = "of the steps"
doc = "Share of the steps from there on that must show it."
source = "convention: of this project, six of ten"
[params.more_than_moved]
value = 1.05
unit = "times"
doc = "What weights lose beside the update, from which the decay comes after the step."
source = "arithmetic: no update takes more than its length; a twentieth is rounding"
[params.set_decay]
value = 0.1
unit = "of the loss"
doc = "Share of what is lost that lr x weight_decay makes at most."
source = "convention: of this project, a tenth"
[params.few]
value = 3
unit = "losses"
doc = "First losses, from which it is told where the loss began."
source = "convention: of this project, losses of single steps scatter"
[params.long]
value = 4
unit = "times"
doc = "Length of a run, in steps of the least, from which its loss tells whether it learns."
source = "convention: of this project, four times"
[needs]
tables = ["param_groups"]
columns = ["param_groups.weight_decay", "param_groups.update_norm"]
steps = 8
[doc]
what = "In most steps lr x weight_decay x norm of the weights is most of the update's norm. The weights shrink. Or they shrink by weight_decay itself, step after step, because an optimizer of the script's own leaves out lr. Or there is no weight_decay that could do it. Then updates that went in all directions point straight at zero from some step on. The loss is higher after it. Or from the first step on the weights lose more than the optimizer's updates are long, and nothing is learnt."
why = "The weights decay exponentially; what the gradient teaches is forgotten."
not_this = "Usual decay (1e-2 with a rate of 1e-3), optimizers in which decay is scaled by the moments (Adam). Weights that shrink while the loss goes on falling. Weights that shrank from the beginning no faster than their updates could do it, or in a training that learns."
source = "Arithmetic: the decay step is lr x weight_decay x W. With the momentum m of SGD up to 1/(1 - m) times that. An update at right angles to the weights leaves their norm as it is. One that is decay takes its own whole length from it. No update takes more."
*/
-- shared
WITH numbered AS (
    -- a step that was measured stands for those up to the next, where recording was sampled
    SELECT *, step - min(step) OVER series + 1 AS n, coalesce(lead(step) OVER series - step, 1) AS stands_for,
        step - lag(step) OVER series AS gap,
        1 - (weight_norm / nullif(lag(weight_norm) OVER series,
            0)) ** (1 / (step - lag(step) OVER series)) AS shrunk,
        1 - (lead(weight_norm) OVER series / nullif(weight_norm,
            0)) ** (1 / (lead(step) OVER series - step)) AS shrinks
    FROM param_groups
    WHERE update_norm IS NOT NULL OR weight_norm IS NOT NULL
    WINDOW series AS (PARTITION BY rank, optimizer_id, group_id ORDER BY step)
), lengths AS (
    SELECT *, lag(weight_norm) OVER series AS norm_before, lag(step) OVER series AS step_before,
        last_value(weight_norm) OVER (series ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS after,
        (lag(weight_norm) OVER series - weight_norm) / gap / nullif(update_norm, 0) AS inward
    FROM numbered WINDOW series AS (PARTITION BY rank, optimizer_id, group_id ORDER BY step)
)
-- detector: decay_outweighs
WITH told AS (
    -- what the weights lose in a step is weight_decay itself: it was not multiplied by lr
    SELECT *,
        coalesce(lr < $own_rate
            AND weight_decay < 1
            AND abs(coalesce(shrunk, shrinks) - weight_decay) < $as_said * weight_decay, false) AS without_lr
    FROM numbered
), rows_ AS (
    -- SGD adds the decay to the gradient, so that its momentum gathers it: 1 + m + m² + … of it are in an
    -- update, the weights of
    -- before having been larger than now
    SELECT rank, step, optimizer_id, group_id, weight_decay, without_lr, stands_for,
        CASE WHEN without_lr THEN weight_decay ELSE lr * weight_decay END AS rate, weight_norm,
        CASE WHEN without_lr THEN weight_decay * weight_norm / (1 - weight_decay) / update_norm
        ELSE lr * weight_decay * weight_norm / nullif(update_norm, 0)
            * CASE WHEN optimizer = 'SGD'
                AND momentum > 0
                AND momentum < 1 THEN (1 - momentum ** least(n, $gathered)) / (1 - momentum) ELSE 1 END
                    END AS share
    FROM told WHERE weight_decay > 0 AND update_norm > 0 AND optimizer <> 'Adam' AND isfinite(update_norm)
), sized AS (
    SELECT *, weight_norm > $gone * max(weight_norm) OVER (PARTITION BY rank, optimizer_id, group_id) AS there
    FROM rows_
), hits AS (
    -- weights that are all but gone are kept alive by the gradient alone: what brought them there came before
    SELECT *,
        sum(CASE WHEN there THEN stands_for END) OVER (PARTITION BY rank, optimizer_id, group_id
            ORDER BY step ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS left_,
        sum(CASE WHEN there AND without_lr THEN stands_for END) OVER (PARTITION BY rank, optimizer_id,
            group_id
            ORDER BY step ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS told_,
        avg((share > $share)::INT) FILTER (there) OVER (PARTITION BY rank, optimizer_id, group_id
            ORDER BY step ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS rest,
        last_value(weight_norm) OVER (PARTITION BY rank, optimizer_id, group_id
            ORDER BY step ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS after
    FROM sized
)
SELECT rank, step, optimizer_id, group_id, share AS value,
    CASE WHEN without_lr THEN 'decay_without_lr' ELSE 'lr_times_decay' END AS rate_, rate, weight_decay,
    weight_norm AS before, after, percent_of(least(share, 1)) AS percent
FROM hits
WHERE share > $share
  AND rest > $rest
  AND (left_ >= $least OR without_lr AND left_ >= $quick AND told_ >= $quick AND after < $gone * weight_norm)
  AND rate >= $rate
  AND after < $fall * weight_norm
-- detector: shrinks_from_a_step_on
WITH turned AS (
    SELECT *, shrunk AS lost, max(inward) OVER before AS before_inward, count(inward) OVER before AS before,
        count(inward) OVER ahead AS ahead, avg(inward) OVER ahead AS straight,
        min(inward) OVER ahead AS straight_least,
        min(shrunk) OVER ahead AS lost_least
    FROM lengths
    WINDOW before AS (PARTITION BY rank, optimizer_id, group_id
        ORDER BY step ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
        ahead AS (PARTITION BY rank, optimizer_id, group_id
            ORDER BY step ROWS BETWEEN CURRENT ROW AND $least - 1 FOLLOWING)
)
-- a decay of the script's own, in a hook or after the step: where it comes after the step, the weights lose
-- more than the update has moved them
SELECT t.rank, CASE WHEN t.inward > $more_than_moved THEN t.step_before ELSE t.step END AS step,
    t.optimizer_id, t.group_id, t.inward AS value, 'own_doing' AS rate_, t.lost AS rate, t.weight_decay,
    t.norm_before AS before, t.after, percent_of(least(t.inward, 1)) AS percent
FROM turned t
JOIN optimizer_series o ON o.rank = t.rank AND o.optimizer_id = t.optimizer_id AND o.step = t.step
WHERE t.before >= $least
  AND t.before_inward < $aside
  AND t.ahead = $least
  AND t.straight > $straight
  AND t.straight_least > $straight / 2
  AND t.lost_least > $slow
    AND t.lr * t.weight_decay < $set_decay * t.lost_least AND t.after < $fall * t.norm_before
    AND (SELECT median(finite(l.loss))
        FROM optimizer_series l
        WHERE l.rank = t.rank AND l.optimizer_id = t.optimizer_id AND l.step > t.step) > o.loss_median
-- detector: shrinks_from_the_start
-- from the beginning: no update shortens the weights by more than its own length
SELECT b.rank, b.step, b.optimizer_id, b.group_id, b.value, 'own_doing' AS rate_, b.rate, b.weight_decay,
    b.before, b.after, 100 AS percent
FROM (
    SELECT rank, optimizer_id, group_id, min(step_before) AS step, count(*) AS seen, min(inward) AS value,
        min(shrunk) AS least, median(shrunk) AS rate, max(lr * weight_decay) AS decay,
        max(weight_decay) AS weight_decay,
        arg_min(norm_before, step) AS before, any_value(after) AS after
    FROM lengths WHERE inward IS NOT NULL AND n - 1 <= 2 * $least GROUP BY rank, optimizer_id, group_id
) b JOIN (
    SELECT rank, optimizer_id, median(loss) FILTER (place <= $few) AS at_first,
        median(loss) FILTER (place > total / 2) AS at_last
    FROM (SELECT *, row_number() OVER series AS place,
        count(*) OVER (PARTITION BY rank, optimizer_id) AS total
        FROM optimizer_series
        WHERE isfinite(loss)
        WINDOW series AS (PARTITION BY rank, optimizer_id ORDER BY step))
    GROUP BY rank, optimizer_id HAVING max(total) >= $long * $least
) l USING (rank, optimizer_id)
WHERE b.seen >= $least
  AND b.value > $beyond
  AND b.least > $slow
  AND b.decay < $set_decay * b.least
  AND b.after < $half * b.before
  AND l.at_last > l.at_first - $learnt * abs(l.at_first)
-- together
ORDER BY step, rank, group_id
