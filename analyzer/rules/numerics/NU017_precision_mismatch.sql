/*
code = "NU017"
name = "precision-mismatch"
severity = "error"
phase = "forward"
signal = "autocast"
message = "From step {step} on {what_}, but the training forward runs without autocast (float32): {off_}."
fix = "Put the forward and the loss under torch.autocast(device, dtype), or drop the GradScaler."
seeks = [
    "steps: contains(calls, 'f') AND autocast IS NULL",
    "steps: contains(calls, 'f') AND (autocast IS NOT NULL OR loss_scale > 1)",
]
[say.what_]
autocast_before = "autocast to {dtype_before} was on in all {on_before} steps before"
scaler = "a GradScaler (scale {scale}) is in use"
[say.off_]
last = "off in the last {left_} steps"
all = "off in all {left_} steps"
[params.least]
value = 3
unit = "steps"
doc = "Steps in a row."
source = "convention: of this project, one forward may be a look at the model"
[needs]
tables = ["steps"]
columns = ["steps.calls"]
steps = 3
[doc]
what = "A GradScaler is in use with all parameters in float32 and autocast off. Or autocast was on in earlier steps and is off from some step on."
why = "Mixed precision was meant and does not happen. Memory and time are those of float32, and the scaler only skips steps."
not_this = "A scaler that is switched off, parameters in half precision, from the start or from then on. Autocast in some steps only from the start, evaluation."
source = "Autocast state in the forward; no threshold but persistence."
*/
WITH forwards AS (
    SELECT rank, step, bool_or(autocast IS NOT NULL) AS on_, max(autocast) AS dtype, max(loss_scale) AS scale
    FROM steps WHERE contains(calls, 'f') GROUP BY rank, step
), counted AS (
    SELECT rank, min(step) FILTER (NOT on_) AS step, count(*) FILTER (on_) AS on_before,
        count(*) FILTER (NOT on_) AS left_, max(dtype) AS dtype_before,
        arg_min(scale, step) FILTER (NOT on_) AS scale, max(step) FILTER (on_) AS last_on
    FROM forwards GROUP BY rank
), half AS (
    SELECT DISTINCT rank
    FROM tensors
    WHERE kind IN ('parameter', 'activation') AND dtype IN ('float16', 'bfloat16')
)
SELECT rank, step, dtype_before, on_before, left_, 'autocast_before' AS what_, 'last' AS off_
FROM counted c WHERE on_before >= $least AND last_on < step AND left_ >= $least
  -- weights in half precision need no autocast
  AND NOT EXISTS (FROM halved_weights h WHERE h.rank = c.rank AND h.step >= c.step)
UNION ALL BY NAME
SELECT rank, step, scale, left_, 'scaler' AS what_, 'all' AS off_
FROM counted WHERE scale > 1 AND on_before = 0 AND left_ >= $least AND rank NOT IN (SELECT rank FROM half)
ORDER BY step, rank
