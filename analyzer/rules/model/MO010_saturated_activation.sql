/*
code = "MO010"
name = "saturated-activation"
severity = "error"
phase = "forward"
signal = "saturation"
message = "From step {step} on at least {percent} % of the outputs of {module} ({class_name}) lie at their bounds. Its gradient is nearly zero there."
fix = "Initialise smaller, normalise before {module}, or use an activation without bounds."
seeks = ["modules: class_name IN ('Tanh', 'Sigmoid')"]
explains = ["gradients-vanish", "nothing-learnt", "shuffled-labels", "representation-collapse"]
[params.square]
value = 0.96
doc = "Mean square of the output, scaled to [-1, 1]: above it at least 59 % lie beyond 0.95."
source = "arithmetic: Markov's inequality, as the source of the rule says"
[params.least]
value = 5
unit = "steps"
doc = "Steps in a row."
source = "convention: of this project, fewer are an odd batch"
[params.slope]
value = 0.25
doc = "Mean derivative at the first of these steps as a share of the least in the steps before: it came at once. The mean derivative of tanh is 1 - E."
source = "convention: of this project, the mean derivative of tanh is 1 - E: a quarter of what it was"
[params.slow]
value = 100
unit = "steps"
doc = "Steps that it must last where it came bit by bit."
source = "convention: of this project, hidden units that training itself brings to their bounds often come free again"
[params.free]
value = 0.92
doc = "Mean square to which it has come back at some time after it was first saturated: it comes and goes."
source = "arithmetic: 1 - 0.92 is twice 1 - 0.96: the mean derivative has doubled"
[params.stays]
value = 0.5
doc = "Share of the steps since then that it must have been saturated to the end anyway."
source = "convention: of this project, more often than not"
[params.elements]
value = 16
unit = "elements"
doc = "Elements of an output that can be judged."
source = "convention: of this project, fewer are saturated by chance"
[params.before]
value = 16
unit = "looks"
doc = "Looks before, from which it is told what was usual."
source = "convention: of this project, as many as show a level"
[params.least_square]
value = 0.9025
doc = "Square of the bound 0.95."
source = "arithmetic: 0.95 squared"
[params.rest_square]
value = 0.0975
doc = "1 less it."
source = "arithmetic: 1 less 0.9025"
[needs]
tables = ["tensor_stats", "modules"]
kinds = ["activation"]
steps = 5
[doc]
what = "Outputs of a tanh or sigmoid inside the network are close to their bounds, step after step. They are so close that most units must be saturated. For a tanh at the end of the network this counts only if it came from one step to the next."
why = "The derivative of a saturated unit is nearly zero: what lies below it does not learn."
not_this = "The last sigmoid of a classifier, which is to be sure of itself. A tanh at the end that comes to its bounds bit by bit. One inside that came so, less than 100 steps ago. Saturation that comes and goes (the features of a critic). Gates inside recurrent layers, which are not seen."
source = "Markov: let x be in [-1, 1] with mean square E. Then the share beyond t is at least (E - t^2) / (1 - t^2). The values 0.96 and 0.95 give 0.59."
*/
WITH squares AS (
    SELECT s.rank, s.step, m.module_id, m.module, m.class_name, m.call_order,
        (SELECT max(call_order) FROM modules a WHERE a.rank = m.rank AND a.model = m.model) AS last_call,
        CASE
            WHEN m.class_name = 'Tanh' THEN s.sum_sq / s.numel
            ELSE (4 * s.sum_sq - 4 * s.sum) / s.numel + 1
            END AS value
    FROM tensor_stats s
    JOIN tensors t ON t.rank = s.rank
        AND t.tensor_id = s.tensor_id
        AND t.kind = 'activation'
        AND t.tensor_name LIKE '%:output0'
    JOIN modules m ON m.rank = t.rank AND m.module_id = t.module_id
    WHERE s.phase = 'forward'
      AND m.class_name IN ('Tanh', 'Sigmoid')
      AND s.nan_count + s.inf_count = 0
      AND s.numel >= $elements
      AND s.sum IS NOT NULL
), steps_ AS (
    SELECT rank, step, module_id, any_value(module) AS module, any_value(class_name) AS class_name,
        min(value) AS value, any_value(call_order) AS call_order,
        any_value(call_order = last_call) AS last_module
    FROM squares WHERE call_order < last_call OR class_name = 'Tanh' GROUP BY rank, step, module_id
), runs AS (
    SELECT *,
        row_number() OVER w - row_number() OVER (PARTITION BY rank, module_id, value > $square
            ORDER BY step) AS island,
        max(step) OVER (PARTITION BY rank, module_id) AS last,
        max(value) OVER (w ROWS BETWEEN $before PRECEDING AND 1 PRECEDING) AS before,
            count(*) OVER (w ROWS BETWEEN $before PRECEDING AND 1 PRECEDING) AS history
    FROM steps_ WINDOW w AS (PARTITION BY rank, module_id ORDER BY step)
)
, reached AS (
    SELECT rank, module_id, first_, count(*) AS steps_, min(value) AS freest,
        min_by(history, step) AS history,
        coalesce(1 - min_by(value, step) < $slope * (1 - min_by(before, step)), false) AS at_once
    FROM (SELECT *, min(step) FILTER (value > $square) OVER (PARTITION BY rank, module_id) AS first_
        FROM runs)
    WHERE step >= first_
    GROUP BY ALL
)
SELECT r.rank, min(r.step) AS step, any_value(r.module) AS module, any_value(r.class_name) AS class_name,
    median(r.value) AS value, any_value(r.call_order) AS call_order,
    floor(100 * (median(r.value) - $least_square) / $rest_square)::INT AS percent, count(*) AS steps_
FROM runs r
JOIN reached f ON f.rank = r.rank AND f.module_id = r.module_id
WHERE r.value > $square
GROUP BY r.rank, r.module_id, r.island
HAVING count(*) >= $least AND max(r.step) = any_value(r.last)
    AND (any_value(f.freest) > $free OR count(*) >= $stays * any_value(f.steps_))
    AND (any_value(r.last_module) OR any_value(f.history) < $least OR any_value(f.at_once)
        OR max(r.step) - min(r.step) >= $slow)
    AND (NOT any_value(r.last_module)
        OR (min_by(r.history, r.step) >= $least
            AND 1 - min_by(r.value, r.step) < $slope * (1 - min_by(r.before, r.step))))
ORDER BY step, rank, call_order
