/*
code = "OP027"
name = "loss-independent-of-model"
severity = "error"
phase = "loss"
signal = "activation_gradient"
message = "From step {step} on the loss ({loss}) does not depend on the model. {what_}"
fix = "Look between the model's output and the loss. Usual causes are a factor of 0 (a weight, a mask, a schedule) and a clamp that always acts. Another is an output that the loss does not use, or that cancels: a sum or softmax along the wrong axis."
seeks = [
    [
        "param_steps: sum_sq = 0 AND NOT missing AND nonfinite_count = 0",
        "stats: kind = 'activation_gradient' AND sum_sq > 0 AND sqrt(sum_sq * numel) <= $roundings * $eps",
    ],
]
explains = ["representation-collapse", "gradients-vanish", "nothing-learnt", "optimizer-eps-underflow", "second-moment-collapse", "dead-relu"]
[say.what_]
all_zero = "Its gradient is exactly zero at the output of {place}, where the model ends, and at every other output. So are the gradients of all {parameters} parameters ({steps} steps, to the end)."
rounding = "Its gradient at the output of {place}, where the model ends, is rounding alone in all {steps} examined steps. Were every output moved by one, the loss would move by {value:.1g}, less than {roundings:.0f} roundings of itself."
[params.least]
value = 6
unit = "steps"
doc = "Measured steps without a break, to the end of the run."
source = "convention: of this project, fewer may be an odd branch"
[params.smallest]
value = 5.96e-8
doc = "Smallest number of float16 above zero."
source = "arithmetic: 2^-24"
[params.roundings]
value = 16
unit = "roundings"
doc = "Of float32: what a gradient adds up to that consists of terms which cancel."
source = "arithmetic: some additions for each sample, each rounded once"
[params.half]
value = 0.5
unit = "roundings"
doc = "The least that terms which cancel leave. A gradient below it has vanished on its way."
source = "arithmetic: half a unit in the last place"
[params.eps]
value = 1.1920929e-7
doc = "Distance of float32 numbers at 1."
source = "arithmetic: 2^-23"
[params.mild]
value = 8
doc = "Largest output at which no sigmoid or softmax behind it is saturated."
source = "arithmetic: the slope of a sigmoid at 8 is 3e-4, thousands of roundings"
[needs]
tables = ["tensor_stats", "steps"]
kinds = ["gradient", "activation_gradient"]
steps = 8
[doc]
what = "A loss is not zero, but its gradient is exactly zero to the end of the run. The gradient exists, and is zero at every output of the model and in every parameter. Or the gradient is nothing but rounding at the outputs of all models, in every examined step from the first on. These outputs are small, and differ."
why = "Whatever the model puts out, the loss stays the same: nothing can be learned from it."
not_this = "A loss that is zero, as a hinge whose margin is met. Layers that died inside the model, since the gradient at the output is not zero there. Steps in which a part gets a gradient. A loss so small that float16 rounds its gradient to zero. Outputs that saturate what comes behind them. A loss that is itself as small as its gradient. A gradient that has vanished on a long way."
source = "Exact zeros and persistence. Float arithmetic: terms that cancel leave some roundings."
*/
-- detector: all_zero
WITH at_outputs AS (
    -- of every module: the one that runs last gives the model's output
    SELECT s.rank, s.step, max_by(m.module, m.call_order) AS module, max_by(m.model, m.call_order) AS model,
        bool_and(s.sum_sq = 0 AND s.nan_count + s.inf_count = 0) AS zero,
        -- what float16 rounds to zero, where a gradient is as large as the loss spread over the output
        CASE WHEN max_by(t.dtype, m.call_order) = 'float16' THEN max_by(s.numel, m.call_order) * $smallest END
            AS vanishes
    FROM tensor_stats s
    JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id AND t.kind = 'activation_gradient'
    JOIN modules m ON m.rank = t.rank AND m.module_id = t.module_id
    GROUP BY s.rank, s.step
), at_parameters AS (
    SELECT p.rank, g.step, count(*) AS parameters,
        bool_and(g.sum_sq = 0 AND NOT g.missing AND g.nonfinite_count = 0) AS zero
    FROM param_steps g JOIN parameters p ON p.rank = g.rank AND p.tensor_id = g.tensor_id
    WHERE p.optimizer_id IS NOT NULL GROUP BY p.rank, g.step
), looks AS (
    SELECT o.rank, o.step, o.module, o.model, p.parameters, o.zero
        AND p.zero
        AND s.loss <> 0
        AND coalesce(abs(s.loss) >= o.vanishes, true)
        AND isfinite(s.loss) AS independent, s.loss
    FROM at_outputs o JOIN at_parameters p ON p.rank = o.rank AND p.step = o.step
    JOIN (SELECT rank, step, any_value(loss) AS loss
        FROM steps
        WHERE completed
        GROUP BY rank, step) s ON s.rank = o.rank
        AND s.step = o.step
), last_dependent AS (
    SELECT rank, max(step) FILTER (NOT coalesce(independent, false)) AS step FROM looks GROUP BY rank
)
SELECT l.rank, min(l.step) AS step, any_value(l.module) AS module, any_value(l.model) AS model,
    median(l.loss) AS loss, max(l.parameters) AS parameters, count(*) AS steps,
    0.0 AS value, coalesce(nullif(any_value(l.module), ''), any_value(l.model)) AS place,
    'all_zero' AS what_, NULL::DOUBLE AS roundings
FROM looks l JOIN last_dependent d ON d.rank = l.rank
WHERE l.step > coalesce(d.step, -1) GROUP BY l.rank HAVING count(*) >= $least
-- detector: rounding_alone
WITH ends AS (
    -- of every model: the module that runs last gives its output
    SELECT s.rank, s.step, m.model, m.module, m.module_id, s.sum_sq, s.numel, t.dtype,
        s.nan_count + s.inf_count AS nonfinite
    FROM tensor_stats s
    JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id AND t.kind = 'activation_gradient'
    JOIN modules m ON m.rank = t.rank AND m.module_id = t.module_id
    QUALIFY row_number() OVER (PARTITION BY s.rank, s.step, m.model
        ORDER BY m.call_order DESC, s.seq DESC) = 1
), given AS (
    SELECT s.rank, s.step, t.module_id, max(greatest(abs(s.min), abs(s.max))) AS largest,
        max(s.max) > min(s.min) AS differ
    FROM tensor_stats s
    JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id AND t.kind = 'activation'
        AND t.tensor_name LIKE '%:output%'
    WHERE s.phase <> 'eval'
    GROUP BY s.rank, s.step, t.module_id
), looks AS (
    SELECT e.*, w.loss, sqrt(e.sum_sq * e.numel) AS moves,
        coalesce(e.dtype = 'float32' AND e.sum_sq > 0 AND e.nonfinite = 0
            AND moves BETWEEN $half * $eps * least(abs(w.loss), 1)
                AND $roundings * $eps * least(abs(w.loss), 1), false) AS rounding,
        -- unknown in steps in which the output was not measured
        g.largest <= $mild AND g.differ AS ordinary
    FROM ends e
    JOIN (SELECT rank, step, any_value(loss) AS loss FROM steps WHERE completed GROUP BY rank, step) w
        ON w.rank = e.rank AND w.step = e.step AND isfinite(w.loss)
    LEFT JOIN given g ON g.rank = e.rank AND g.step = e.step AND g.module_id = e.module_id
)
SELECT l.rank, min(l.step) AS step, max_by(l.module, l.step) AS module, max_by(l.model, l.step) AS model,
    median(l.loss) AS loss, NULL::BIGINT AS parameters, count(DISTINCT l.step) AS steps,
    median(l.moves) AS value, coalesce(nullif(any_value(l.module), ''), any_value(l.model)) AS place,
    'rounding' AS what_, $roundings::DOUBLE AS roundings
FROM looks l
GROUP BY l.rank HAVING bool_and(l.rounding) AND bool_and(l.ordinary) AND count(DISTINCT l.step) >= $least
-- together
SELECT * FROM found
ORDER BY step, rank
