/*
code = "OP005"
name = "lr-too-low"
severity = "error"
phase = "optimizer"
signal = "update_ratio"
message = "From step {step} on {what_}."
fix = "Raise the learning rate; an update ratio near 1e-3 is usual. A scheduler on a metric needs mode='min' for a loss, and mode='max' for an accuracy."
seeks = [
    [
        "optimizer_series: update_ratio < greatest($small, $ratio)",
        "schedulers: scheduler LIKE '%Plateau%'",
    ],
]
explains = ["nothing-learnt"]
[say.what_]
updates_too_small = "an update moves the weights by {value:.3g} of their norm (lr {lr:.3g}) although the gradients are healthy (norm {norm:.3g}): at this rate {steps_} steps change nothing"
plateau_upside_down = "ReduceLROnPlateau with mode='max' cuts the learning rate, {cuts} times, to {lr:.3g}, although what it is given falls as a loss does, from {metric_first:.3g} to {metric:.3g}: every improvement counts as none"
plateau_by_name = "ReduceLROnPlateau with mode='{mode}' cuts the learning rate, {cuts} times, to {lr:.3g}, although the script hands it {metric_name}, which goes from {metric_first:.3g} to {metric:.3g}: every improvement counts as none"
[params.ratio]
value = 1e-6
doc = "Largest update ratio that counts as standing still."
source = "convention: a thousandth of the ratio of 1e-3 that is the usual rule of thumb (Karpathy, CS231n notes, ratio of updates to weights)"
[params.drop]
value = 1e3
unit = "times"
doc = "Fall of the learning rate from one step to the next that counts as a mistake."
source = "convention: of this project, schedules fall by a factor of ten, a hundred at most"
[params.least]
value = 10
unit = "steps"
doc = "Steps that it must last."
source = "convention: of this project, fewer may be the beginning of a warm-up"
[params.slow]
value = 60
unit = "steps"
doc = "Steps after which a warm-up should have raised the learning rate tenfold."
source = "convention: of this project, the warm-up of short schedules has ended by then"
[params.better]
value = 0.5
doc = "Share of its first value to which a loss has fallen. By then a scheduler that waits for higher values has cut the rate."
source = "own history"
[params.near]
value = 1.5
unit = "times"
doc = "Or it is the loss itself: as close to it as this, at first and in the end, and a tenth lower."
source = "own history"
[params.cuts]
value = 2
unit = "cuts"
doc = "How often it must have cut it."
source = "convention: of this project, one cut may come in a plateau"
[params.raised]
value = 1.5
unit = "times"
doc = "Rise of the learning rate over the run that is no warm-up."
source = "convention: of this project, half as much again"
[params.tenfold]
value = 10
unit = "times"
doc = "The same after the steps of a warm-up, and after a fall."
source = "convention: of this project, an order of magnitude"
[params.rest]
value = 0.5
unit = "of the run"
doc = "Part of the run that a dead schedule must leave."
source = "arithmetic: half"
[params.small]
value = 1e-4
doc = "Update ratio after a fall below which it is too low."
source = "convention: of this project, a tenth of the usual 1e-3"
[params.cut]
value = 0.99
unit = "times"
doc = "Learning rate over the first that is a cut."
source = "convention: of this project, less is rounding"
[params.start]
value = 8
unit = "steps"
doc = "First losses, from which it is told where the loss began."
source = "convention: of this project, losses of single steps scatter"
[params.late]
value = 0.75
unit = "of the run"
doc = "Where its end begins."
source = "arithmetic: the last quarter"
[params.tenth]
value = 0.9
unit = "times"
doc = "What is given to the scheduler over its first value, where it is the loss."
source = "convention: of this project, a tenth lower"
[needs]
tables = ["steps", "param_groups"]
columns = ["param_groups.update_norm", "param_groups.lr"]
steps = 10
[doc]
what = "Updates are below a millionth of the weights' norm in all steps with gradients that are not zero. Or they are so for half of the run or more, after the learning rate has fallen a thousandfold. Or a learning rate falls a thousandfold in one step and stays there. Or ReduceLROnPlateau with mode='max' cuts the rate again and again. Its metric falls, and the loss with it. Or the mode is 'min' and what the script hands over is named as an accuracy is and rises, or 'max' and it is named as a loss is and falls."
why = "The loss cannot move: a million such steps are needed to change the weights once."
not_this = "A warm-up (unless it hardly rises in sixty steps). A decay in usual stages or to the end of a schedule, weights that round the update away. A rate of zero, zero gradients."
source = "Update ratio 1e-3 is usual practice; 1e-6 is the bound of the catalogue."
*/
-- shared
WITH rows_ AS (
    SELECT *, count(*) OVER w AS total, max(update_ratio) OVER w AS highest, max(lr) OVER w AS lr_high,
        last_value(lr) OVER whole AS lr_last, first_value(lr) OVER whole AS lr_first,
        max(lr) OVER after AS lr_after, count(*) OVER after AS left_, lag(lr) OVER series AS lr_was,
            max(update_ratio) OVER after AS ratio_after
    FROM optimizer_series
    WINDOW w AS (PARTITION BY rank, optimizer_id), series AS (PARTITION BY rank, optimizer_id ORDER BY n),
        whole AS (PARTITION BY rank, optimizer_id
            ORDER BY n ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING),
        after AS (PARTITION BY rank, optimizer_id ORDER BY n ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)
)
-- detector: updates_too_small
WITH rounding AS (
    SELECT DISTINCT rank FROM tensors WHERE kind = 'parameter' AND dtype IN ('float16', 'bfloat16')
), still AS (
    SELECT rank, min(step) AS step, optimizer_id, median(update_ratio) AS value, any_value(lr) AS lr,
        median(norm) AS norm, count(*) AS steps_
    FROM rows_
    WHERE highest < $ratio
      AND lr > 0
      AND (lr_last <= $raised * lr_first OR total >= $slow AND lr_last <= $tenfold * lr_first)
      AND total >= $least
      AND norm > 0
      AND stepped
      AND rank NOT IN (SELECT rank FROM rounding)
    GROUP BY rank, optimizer_id HAVING count(*) >= $least AND median(update_ratio) IS NOT NULL
), died AS (
    -- the schedule has come to its end long before the training
    SELECT rank, step, optimizer_id,
        median(update_ratio) OVER (PARTITION BY rank, optimizer_id
            ORDER BY n ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS value,
        lr, norm, left_ AS steps_
    FROM rows_
    WHERE ratio_after < $ratio
      AND lr > 0
      AND lr_after <= lr
      AND lr_high > $drop * lr
      AND left_ >= $rest * total
      AND left_ >= $least
      AND norm > 0
      AND rank NOT IN (SELECT rank FROM rounding)
    QUALIFY row_number() OVER (PARTITION BY rank, optimizer_id ORDER BY n) = 1
), fallen AS (
    SELECT rank, step, optimizer_id, update_ratio AS value, lr, norm, left_ AS steps_
    FROM rows_
    WHERE lr > 0
      AND lr_was > $drop * lr
      AND lr_after < $tenfold * lr
      AND left_ >= $least
      AND ratio_after < $small
    QUALIFY row_number() OVER (PARTITION BY rank, optimizer_id ORDER BY n) = 1
)
SELECT *, 'updates_too_small' AS what_
FROM (SELECT * FROM still UNION ALL BY NAME SELECT * FROM fallen UNION ALL BY NAME SELECT * FROM died)
-- detector: plateau_upside_down
WITH judged AS (
    -- settings are those after the scheduler's last step: a step that it made belongs to the row after
    SELECT rank, scheduler_id, optimizer_id, step, lr, json_extract(settings, '$.metric')::DOUBLE AS metric,
        first_value(lr) OVER w AS lr_first,
        first_value(json_extract(settings, '$.metric')::DOUBLE) OVER w AS metric_first
    FROM schedulers
    WHERE scheduler LIKE '%Plateau%'
      AND json_valid(settings)
      AND json_extract_string(settings, '$.mode') = 'max'
      AND json_extract(settings, '$.metric') IS NOT NULL
      AND steps > 0
    WINDOW w AS (PARTITION BY rank, scheduler_id ORDER BY step)
), upside_down AS (
    SELECT j.rank, min(j.step) FILTER (j.lr < $cut * j.lr_first) AS step, j.optimizer_id,
        arg_max(j.lr, j.step) AS lr, max(j.metric_first) AS metric_first, arg_max(j.metric, j.step) AS metric,
        count(DISTINCT j.lr) - 1 AS cuts, any_value(o.update_ratio) AS value, any_value(o.norm) AS norm
    FROM judged j
    JOIN (SELECT rank, optimizer_id, arg_max(update_ratio, step) AS update_ratio, arg_max(norm, step) AS norm,
            median(loss) FILTER (n < $start) AS loss_first,
                median(loss) FILTER (n >= $late * total) AS loss_last
        FROM rows_ GROUP BY rank, optimizer_id) o ON o.rank = j.rank AND o.optimizer_id = j.optimizer_id
    GROUP BY j.rank, j.scheduler_id, j.optimizer_id
    HAVING count(DISTINCT j.lr) > $cuts AND any_value(o.loss_last) < any_value(o.loss_first)
      AND (arg_max(j.metric, j.step) BETWEEN 0 AND $better * max(j.metric_first)
        OR arg_max(j.metric, j.step) BETWEEN 0 AND $tenth * max(j.metric_first)
          AND max(j.metric) = max(j.metric_first)
            AND max(j.metric_first) / any_value(o.loss_first) BETWEEN 1 / $near AND $near
              AND arg_max(j.metric, j.step) / any_value(o.loss_last) BETWEEN 1 / $near AND $near)
)
SELECT rank, step, optimizer_id, value, lr, norm, cuts, metric_first, metric,
    'plateau_upside_down' AS what_
FROM upside_down
-- detector: plateau_by_name
-- the script's own word for what it hands over: a higher accuracy is better, and a lower loss
WITH given AS (
    SELECT rank, scheduler_id, optimizer_id, step, lr, json_extract(settings, '$.metric')::DOUBLE AS metric,
        json_extract_string(settings, '$.mode') AS mode,
        regexp_extract(json_extract_string(settings, '$.given'), '\.step\(\s*(?:metrics=)?([\w.\[\]''"]+)', 1)
            AS metric_name
    FROM schedulers
    WHERE scheduler LIKE '%Plateau%' AND json_valid(settings) AND steps > 0
), inverted AS (
    SELECT rank, scheduler_id, optimizer_id, any_value(mode) AS mode, any_value(metric_name) AS metric_name,
        arg_min(lr, step) AS lr_first, arg_max(lr, step) AS lr, count(DISTINCT lr) - 1 AS cuts,
        arg_min(metric, step) AS metric_first, arg_max(metric, step) AS metric,
        list({step: step, lr: lr} ORDER BY step) AS rates
    FROM given
    WHERE CASE mode
        WHEN 'min' THEN regexp_matches(metric_name, '(?i)acc|(^|[^a-z])(f1|auc|m?iou|dice|bleu|psnr|ssim)')
            AND NOT regexp_matches(metric_name, '(?i)loss|err')
        WHEN 'max' THEN regexp_matches(metric_name, '(?i)loss')
            AND NOT regexp_matches(metric_name, '(?i)neg') END
    GROUP BY rank, scheduler_id, optimizer_id
    HAVING cuts > 0 AND CASE any_value(mode) WHEN 'min' THEN arg_max(metric, step) > arg_min(metric, step)
        ELSE arg_max(metric, step) < arg_min(metric, step) END
)
SELECT i.rank, list_min([r.step FOR r IN i.rates IF r.lr < $cut * i.lr_first]) AS step, i.optimizer_id,
    o.update_ratio AS value, i.lr, o.norm, i.cuts, i.metric_first, i.metric, i.metric_name, i.mode,
    'plateau_by_name' AS what_
FROM inverted i
JOIN (SELECT rank, optimizer_id, arg_max(update_ratio, step) AS update_ratio, arg_max(norm, step) AS norm
    FROM rows_ GROUP BY rank, optimizer_id) o ON o.rank = i.rank AND o.optimizer_id = i.optimizer_id
-- together
ORDER BY step, rank, optimizer_id
