/*
code = "OP017"
name = "weight-decay-dominates"
severity = "error"
phase = "optimizer"
signal = "decay_ratio"
message = "From step {step} on weight decay makes up {percent} % of each update of group {group_id} ({rate_} = {rate}): the norm of the weights fell from {before} to {after}."
fix = "Lower weight_decay ({weight_decay}), and leave norms and biases out of it."
explains = ["plateau", "underfit", "vanishing-gradients", "representation-collapse", "divergence", "loss-spike", "shuffled-labels", "silent-backend-noop"]
[params.share]
value = 0.7
doc = "Decay step over whole update."
[params.rate]
value = 1e-3
doc = "lr x weight_decay from which it matters within a run."
[params.as_said]
value = 0.25
unit = "relative"
doc = "How closely what the weights lose in a step must equal weight_decay."
[params.gone]
value = 0.1
doc = "Norm of the weights over its largest below which they are gone."
[params.least]
value = 8
unit = "steps"
doc = "Steps."
[params.quick]
value = 4
unit = "steps"
doc = "The same, where the weights lose weight_decay itself in each of them and are gone after."
[params.fall]
value = 0.8
doc = "Norm of the weights at the end over that at the start."
[needs]
tables = ["param_groups"]
columns = ["param_groups.weight_decay", "param_groups.update_norm"]
steps = 8
[doc]
what = "lr x weight_decay x norm of the weights is most of the update's norm in most steps, and the weights shrink; or they shrink by weight_decay itself, step after step, because an optimizer of the script's own leaves out lr."
why = "The weights decay exponentially; what the gradient teaches is forgotten."
not_this = "Usual decay (1e-2 with a rate of 1e-3), optimizers in which decay is scaled by the moments (Adam)."
source = "Arithmetic: the decay step is lr x weight_decay x W; with the momentum m of SGD up to 1/(1 - m) times that."
*/
WITH numbered AS (
    SELECT *, row_number() OVER series AS n, 1 - weight_norm / nullif(lag(weight_norm) OVER series, 0) AS shrunk, 1 - lead(weight_norm) OVER series / nullif(weight_norm, 0) AS shrinks
    FROM param_groups WINDOW series AS (PARTITION BY rank, optimizer_id, group_id ORDER BY step)
), told AS (
    -- what the weights lose in a step is weight_decay itself: it was not multiplied by lr
    SELECT *, coalesce(lr < 0.1 AND weight_decay < 1 AND abs(coalesce(shrunk, shrinks) - weight_decay) < $as_said * weight_decay, false) AS without_lr FROM numbered
), rows_ AS (
    -- SGD adds the decay to the gradient, so that its momentum gathers it: 1 + m + m² + … of it are in an update, the weights of
    -- before having been larger than now
    SELECT rank, step, optimizer_id, group_id, weight_decay, without_lr, CASE WHEN without_lr THEN weight_decay ELSE lr * weight_decay END AS rate, weight_norm,
        CASE WHEN without_lr THEN weight_decay * weight_norm / (1 - weight_decay) / update_norm
        ELSE lr * weight_decay * weight_norm / nullif(update_norm, 0)
            * CASE WHEN optimizer = 'SGD' AND momentum > 0 AND momentum < 1 THEN (1 - momentum ** least(n, 1000)) / (1 - momentum) ELSE 1 END END AS share
    FROM told WHERE weight_decay > 0 AND update_norm > 0 AND optimizer <> 'Adam' AND isfinite(update_norm)
), sized AS (
    SELECT *, weight_norm > $gone * max(weight_norm) OVER (PARTITION BY rank, optimizer_id, group_id) AS there FROM rows_
), hits AS (
    -- weights that are all but gone are kept alive by the gradient alone: what brought them there came before
    SELECT *, count(CASE WHEN there THEN 1 END) OVER (PARTITION BY rank, optimizer_id, group_id ORDER BY step ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS left_,
        count(CASE WHEN there AND without_lr THEN 1 END) OVER (PARTITION BY rank, optimizer_id, group_id ORDER BY step ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS told_,
        avg((share > $share)::INT) FILTER (there) OVER (PARTITION BY rank, optimizer_id, group_id ORDER BY step ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS rest,
        last_value(weight_norm) OVER (PARTITION BY rank, optimizer_id, group_id ORDER BY step ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS after
    FROM sized
)
SELECT rank, step, optimizer_id, group_id, share AS value, CASE WHEN without_lr THEN 'decay, without lr,' ELSE 'lr x decay' END AS rate_, rate, weight_decay, weight_norm AS before, after, round(100 * least(share, 1))::INT AS percent
FROM hits WHERE share > $share AND rest > 0.6 AND (left_ >= $least OR without_lr AND left_ >= $quick AND told_ >= $quick AND after < $gone * weight_norm) AND rate >= $rate AND after < $fall * weight_norm
ORDER BY step, rank, group_id
