/*
code = "NU010"
name = "clip-before-unscale"
severity = "error"
phase = "optimizer"
signal = "clip_norm"
message = "At step {step} clip_grad_norm_ saw gradients still multiplied by the loss scale {scale}: it cut a norm of {value} to {max_norm}, so the real gradient was cut to about {left_}."
fix = "Call scaler.unscale_(optimizer) before clip_grad_norm_."
explains = ["clip-always-active", "lr-too-low", "plateau", "underfit", "clip-ineffective", "frozen-by-zero-gradient"]
[needs]
tables = ["steps"]
columns = ["steps.clip_scaled"]
[doc]
what = "Clipping in a step whose loss was scaled and whose gradients nothing had divided again."
why = "The threshold is compared with gradients that are larger by the loss scale: after unscaling almost nothing is left."
not_this = "unscale_ before clipping, a scaler that is switched off or has scale one."
source = "Order of calls; no threshold."
*/
SELECT rank, step, clip_norm AS value, clip_max_norm AS max_norm, loss_scale AS scale,
    printf('%.3g', coalesce(least(clip_max_norm, clip_norm), clip_value) / nullif(loss_scale, 0)) AS left_, optimizer_id
FROM steps WHERE clip_scaled ORDER BY step, rank, optimizer_id
