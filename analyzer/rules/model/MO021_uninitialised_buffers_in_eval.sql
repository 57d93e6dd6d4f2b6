/*
code = "MO021"
name = "uninitialised-buffers-in-eval"
severity = "error"
phase = "eval"
signal = "output"
message = "Before its first training step model {model} was evaluated with buffers that only training sets. Its output there is {times_} the size of that in training. Buffers of {place_} went from {before:.4g} to {after:.4g} (root mean square) in the first training forward{and_}."
fix = "Register the buffers with meaningful values. Or run a forward in training mode, or load a checkpoint, before the first evaluation. Or leave that evaluation out."
seeks = ["probes: probe = 'eval_output_before_training'", "probes: probe = 'buffer_set_by_training'"]
explains = ["train-eval-input-mismatch", "loss-spike", "nonfinite-tensor"]
[say.times_]
not_finite = "not finite, and so any number of times"
times = "{value:.3g} times"
beyond_float32 = "more than 1e38 times"
[say.place_]
root = "the root"
named = "{module}"
[say.and_]
others = ", and those of {others} other modules changed too"
[params.times]
value = 100.0
unit = "times"
doc = "Root mean square of the output in evaluation, over that in the first training forwards."
source = "convention: of this project, two orders of magnitude: an evaluation differs from training by less"
[needs]
tables = ["probes", "modules"]
[doc]
what = "A model is evaluated before it is trained. Its outputs are out of all proportion to those of its first training forwards. A training forward then sets buffers that were something else."
why = "Running statistics, scales and caches that are filled in training mode are zeros, ones or whatever memory held before. The first evaluation measures them, not the model."
not_this = "Evaluations before training of models without such buffers, and those that differ by less. Batch normalisation alone is a warning, because data in large units explain it as well."
source = "Comparison of the model with itself."
*/
WITH outputs AS (
    SELECT rank, module_id, min(step) AS step,
        max(value) FILTER (probe = 'eval_output_before_training' AND NOT isnan(value)) AS evaluated,
        bool_or(probe = 'eval_output_before_training' AND isnan(value)) AS lost,
            median(value) FILTER (probe = 'output_in_training') AS trained
    FROM probes WHERE probe IN ('eval_output_before_training', 'output_in_training') GROUP BY rank, module_id
), odd AS (
    SELECT * FROM outputs WHERE trained > 0 AND isfinite(trained) AND (lost OR evaluated > $times * trained)
), buffers AS (
    SELECT p.rank, p.module_id, m.module, m.class_name, m.model, m.call_order, max(p.value) AS after,
        max(p.scale) AS before, m.class_name LIKE '%BatchNorm%' AS usual
    FROM probes p
    JOIN modules m ON m.rank = p.rank AND m.module_id = p.module_id
    WHERE p.probe = 'buffer_set_by_training'
    GROUP BY ALL
), placed AS (
    SELECT o.rank, o.step, m.model, o.evaluated, o.trained, o.lost,
        arg_min(b.module, (b.usual, b.call_order)) AS module, bool_and(b.usual) AS usual, count(*) AS count,
            arg_min(b.before, (b.usual, b.call_order)) AS before,
            arg_min(b.after, (b.usual, b.call_order)) AS after
    FROM odd o
    JOIN modules m ON m.rank = o.rank AND m.module_id = o.module_id
    JOIN buffers b ON b.rank = o.rank AND b.model = m.model
    GROUP BY ALL
)
SELECT rank, step, 'eval' AS phase, module, evaluated / trained AS value, model, before, after,
    count - 1 AS others,
    CASE WHEN lost THEN 'not_finite' WHEN isfinite(evaluated) THEN 'times'
        ELSE 'beyond_float32' END AS times_,
    CASE module WHEN '' THEN 'root' ELSE 'named' END AS place_, CASE WHEN count > 1 THEN 'others' END AS and_,
    CASE WHEN usual THEN 'warning' ELSE 'error' END AS severity
FROM placed ORDER BY step, rank, module
