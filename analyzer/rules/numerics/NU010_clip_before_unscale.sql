/*
code = "NU010"
name = "clip-before-unscale"
severity = "error"
phase = "optimizer"
signal = "clip_norm"
message = "At step {step} {who_} saw gradients still multiplied by the loss scale {scale}. It cut a norm of {value} to {max_norm}, so the real gradient was cut to about {left_:.3g}."
fix = "Call scaler.unscale_(optimizer) before the clipping."
seeks = ["steps: clip_scaled OR loss_scale > 1 AND clip_norm IS NULL AND stepped AND grad_norm > 0"]
explains = ["clip-always-active", "lr-too-low", "nothing-learnt", "clip-ineffective", "frozen-by-zero-gradient"]
[say.who_]
clip_grad_norm = "clip_grad_norm_"
own_code = "a clipping of the script's own"
[params.steps]
value = 8
unit = "steps"
doc = "Steps to the end of the run in which the gradient norm times the loss scale stays one number. The clipping is the script's own."
source = "convention: of this project, as many equal products are no chance"
[params.fall]
value = 50.0
unit = "times"
doc = "By so much the gradient norm must have fallen where that begins, unless the loss scale changes within it."
source = "convention: of this project, far more than the factor of two by which a scale changes, and than a gradient falls in a step"
[params.same]
value = 1e-3
unit = "relative"
doc = "Share by which products may differ that are one number."
source = "convention: of this project, rounding of half precision"
[params.at_a_scale]
value = 3
unit = "steps"
doc = "Steps at a loss scale that counts as one."
source = "convention: of this project, fewer are on the way to the next"
[params.back]
value = 20
unit = "steps"
doc = "Steps before, from which the norm is told."
source = "convention: of this project, as many as show a level"
[params.norms]
value = 5
unit = "steps"
doc = "Norms of those that there must be."
source = "convention: of this project, fewer scatter too much"
[needs]
tables = ["steps"]
columns = ["steps.loss_scale"]
[doc]
what = "A step clipped gradients whose loss was scaled and which nothing had divided again. Or the script clips with its own code. Then the norm of the gradients that reach the step, times the loss scale, becomes constant. The norm falls manifold there, or follows the inverse of the loss scale."
why = "The threshold is compared with gradients that are larger by the loss scale: after unscaling almost nothing is left."
not_this = "unscale_ before clipping (the norm itself is then the constant, near its size before). A scaler that is switched off or has scale one."
source = "Order of calls; for the script's own clipping arithmetic: clip(scale * g) / scale has the norm threshold / scale."
*/
WITH own AS (
    SELECT rank, optimizer_id, step, grad_norm, loss_scale, grad_norm * loss_scale AS product
    FROM optimizer_series
    WHERE loss_scale > 1
      AND clip_norm IS NULL
      AND stepped
      AND NOT coalesce(skipped_by_scaler, false)
      AND isfinite(grad_norm)
      AND grad_norm > 0
), ends AS (
    SELECT rank, optimizer_id, arg_max(product, step) AS product FROM own GROUP BY rank, optimizer_id
), begins AS (
    SELECT o.rank, o.optimizer_id, e.product,
        coalesce(max(o.step) FILTER (abs(o.product - e.product) > $same * e.product), -1) AS before
    FROM own o JOIN ends e USING (rank, optimizer_id) GROUP BY ALL
), flat AS (
    SELECT b.rank, b.optimizer_id, b.product, min(o.step) AS step, max(o.step) AS last_step,
        arg_min(o.loss_scale, o.step) AS scale, median(o.grad_norm) AS norm,
        -- scales that each lasted
        (SELECT count(*)
            FROM (SELECT w.loss_scale
                FROM own w
                WHERE w.rank = b.rank AND w.optimizer_id = b.optimizer_id AND w.step > b.before
            GROUP BY w.loss_scale HAVING count(*) >= $at_a_scale)) AS scales,
        (SELECT median(w.grad_norm)
            FROM own w
            WHERE w.rank = b.rank
              AND w.optimizer_id = b.optimizer_id
              AND w.step BETWEEN b.before - $back AND b.before
            HAVING count(*) >= $norms) AS norm_before
    FROM begins b JOIN own o ON o.rank = b.rank AND o.optimizer_id = b.optimizer_id AND o.step > b.before
    GROUP BY ALL HAVING count(*) >= $steps
)
SELECT rank, step, clip_norm AS value, clip_max_norm AS max_norm, loss_scale AS scale,
    coalesce(least(clip_max_norm, clip_norm), clip_value) / nullif(loss_scale, 0) AS left_,
    'clip_grad_norm' AS who_, optimizer_id
FROM steps WHERE clip_scaled
UNION ALL BY NAME
SELECT rank, step, coalesce(norm_before * scale, product) AS value, product AS max_norm, scale,
    product / scale AS left_, 'own_code' AS who_, optimizer_id
FROM flat WHERE norm_before > $fall * norm OR scales >= 2
ORDER BY step, rank, optimizer_id
