/*
code = "NU011"
name = "unscale-scale-mismatch"
severity = "error"
phase = "optimizer"
signal = "grad_norm"
message = "Gradients are divided by another scale than the loss was multiplied with. At step {step} the loss scale went from {before} to {after_}, and the gradient norm in the optimizer followed (times {value}). This happened at {changes} of {all_} changes."
fix = "Divide by the scale of the same step: let scaler.unscale_/step do it, or read scaler.get_scale() before update()."
explains = ["exploding-gradients", "loss-off-course", "lr-too-high"]
[params.near]
value = 0.2
doc = "How close ln(norm ratio) must come to ln(scale ratio), as a share of it."
source = "convention: of this project, a fifth of the logarithm: for a factor of two within 15 %"
[params.around]
value = 4
unit = "steps"
doc = "Steps before a change of the scale, from which the norm is told."
source = "convention: of this project, losses of single steps scatter"
[params.after]
value = 3
unit = "steps"
doc = "Steps after it."
source = "arithmetic: with the step itself four"
[params.rows]
value = 3
unit = "steps"
doc = "Steps before that there must be."
source = "convention: of this project, fewer scatter too much"
[params.most]
value = 0.75
unit = "of the changes"
doc = "Share of the changes that the norm follows."
source = "convention: of this project, one of four may be chance"
[needs]
tables = ["steps"]
columns = ["steps.loss_scale", "steps.grad_norm"]
steps = 8
[doc]
what = "Whenever the loss scale changes, the norm of the unscaled gradients changes by the same factor."
why = "The factor goes straight into the weights: every growth of the scale doubles the step."
not_this = "Norms that vary anyway by as much, skipped steps, a scale that never changes."
source = "Arithmetic: unscaled gradients do not depend on the scale."
*/
WITH rows_ AS (
    SELECT rank, optimizer_id, step, ln(grad_norm) AS size, loss_scale, row_number() OVER series AS n,
        lag(loss_scale) OVER series AS before
    FROM steps WHERE stepped AND isfinite(grad_norm) AND grad_norm > 0 AND loss_scale > 0
    WINDOW series AS (PARTITION BY rank, optimizer_id ORDER BY step)
), near AS (
    SELECT *,
        median(size) OVER (PARTITION BY rank, optimizer_id
            ORDER BY n ROWS BETWEEN $around PRECEDING AND 1 PRECEDING) AS size_before,
        count(*) OVER (PARTITION BY rank, optimizer_id
            ORDER BY n ROWS BETWEEN $around PRECEDING AND 1 PRECEDING) AS rows_before,
        median(size) OVER (PARTITION BY rank, optimizer_id
            ORDER BY n ROWS BETWEEN CURRENT ROW AND $after FOLLOWING) AS size_after,
        abs(size - lag(size) OVER (PARTITION BY rank, optimizer_id ORDER BY n)) AS move
    FROM rows_
), noise AS (
    SELECT rank, optimizer_id, quantile_cont(move, 0.9) AS usual
    FROM near
    WHERE before = loss_scale
    GROUP BY rank, optimizer_id
), changes AS (
    SELECT n.rank, n.optimizer_id, n.step, n.before, n.loss_scale AS after_,
        exp(size_after - size_before) AS value,
        abs(size_after - size_before - ln(n.loss_scale / n.before)) <= $near
            * abs(ln(n.loss_scale / n.before)) AS follows,
        abs(ln(n.loss_scale / n.before)) > 2 * z.usual AS visible
    FROM near n JOIN noise z ON z.rank = n.rank AND z.optimizer_id IS NOT DISTINCT FROM n.optimizer_id
    WHERE n.before <> n.loss_scale AND n.rows_before >= $rows
), counted AS (
    SELECT rank, optimizer_id, count(*) FILTER (follows AND visible) AS changes, count(*) AS all_
    FROM changes
    GROUP BY rank, optimizer_id
)
SELECT c.rank, c.step, c.value, c.before, c.after_, k.changes, k.all_, c.optimizer_id
FROM changes c JOIN counted k ON k.rank = c.rank AND k.optimizer_id IS NOT DISTINCT FROM c.optimizer_id
WHERE c.follows AND c.visible AND k.changes >= 2 AND k.changes >= $most * k.all_
ORDER BY c.step, c.rank
