/*
code = "NU008"
name = "loss-scale-collapse"
severity = "error"
phase = "optimizer"
signal = "loss_scale"
message = "From step {step} on the GradScaler skipped {skips} steps in a row. Its scale fell from {before} to {value}: gradients are not finite whatever the scale."
fix = "Find where the first Inf or NaN comes from (it is not the scale). Lower the learning rate or run that part in float32."
seeks = ["steps: skipped_by_scaler AND loss_scale IS NOT NULL"]
explains = ["plateau"]
[params.skips]
value = 12
unit = "steps"
doc = "Skipped steps in a row; a scaler that begins at 65536 may halve a few times at the start."
source = "arithmetic: from 65536 twelve halvings lead to 16"
[params.least]
value = 5
unit = "steps"
doc = "The same once steps had gone through at a lower scale before."
source = "convention: of this project, a scaler that had grown halves once or twice when an overflow comes"
[params.made]
value = 3
unit = "steps"
doc = "Steps that had gone through before."
source = "convention: of this project, fewer are the start of the scaler"
[needs]
tables = ["steps"]
columns = ["steps.loss_scale", "steps.skipped_by_scaler"]
[doc]
what = "Step after step is skipped and the scale halves each time, far beyond the search for a first scale."
why = "No step is made any more: the weights stand still while the loss is still printed."
not_this = "The first halvings of a new scaler, a skip now and then after the scale has grown."
source = "Halvings of torch's GradScaler: from 65536 to 16 takes twelve."
*/
WITH rows_ AS (
    SELECT rank, optimizer_id, step, skipped_by_scaler AS skipped, loss_scale,
        row_number() OVER (PARTITION BY rank, optimizer_id ORDER BY step) AS n
    FROM steps WHERE loss_scale IS NOT NULL
), runs AS (
    SELECT *, n - row_number() OVER (PARTITION BY rank, optimizer_id, skipped ORDER BY n) AS island,
        count(CASE WHEN NOT skipped THEN 1 END) OVER (PARTITION BY rank, optimizer_id
            ORDER BY n ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS made,
        max(n) OVER (PARTITION BY rank, optimizer_id) AS last
    FROM rows_
), skips AS (
    SELECT rank, optimizer_id, island, min(step) AS step, count(*) AS skips, arg_min(loss_scale, n) AS before,
        arg_max(loss_scale, n) AS value, min(made) AS made, max(n) = any_value(last) AS to_the_end
    FROM runs WHERE skipped GROUP BY rank, optimizer_id, island
)
SELECT rank, step, value, before, skips, made, optimizer_id FROM skips
WHERE (to_the_end AND skips >= $skips) OR (made >= $made AND skips >= $least)
ORDER BY step, rank, optimizer_id
