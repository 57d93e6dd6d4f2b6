/*
code = "MO013"
name = "double-softmax"
severity = "error"
phase = "loss"
signal = "output"
message = "{what_}: {of_} cannot fall below {floor}{now_}."
fix = "Return logits: drop the softmax before cross_entropy (or use log and nll_loss), the sigmoid before binary_cross_entropy_with_logits (or use binary_cross_entropy)."
seeks = [
    [
        "operators: trigger = 'risk' AND saved IN ('softmax', 'sigmoid')",
        "tensor_stats: phase = 'forward' AND min >= 0 AND max <= $above_one",
        "events: event = 'evaluated-loss'",
    ],
]
explains = ["nothing-learnt", "vanishing-gradients", "shuffled-labels"]
[say.what_]
softmax_of_probabilities = "The output of {model} already sums to one per sample, and cross_entropy takes the softmax of it again (C = {classes})"
sigmoid_of_a_sigmoid = "The output of {model} is that of a sigmoid, and binary_cross_entropy_with_logits takes the sigmoid of it again"
softmax_again = "What the loss is given comes from a {saved}, and cross_entropy applies a softmax again"
sigmoid_again = "What the loss is given comes from a {saved}, and binary_cross_entropy_with_logits applies a sigmoid again"
softmax_in_evaluation = "In evaluations the scores of each sample already sum to one, and {loss_module} takes the softmax of them again; in training it is given logits (C = {classes})"
sigmoid_in_evaluation = "In evaluations the scores lie between {low} and {high}, as those of a sigmoid, and {loss_module} takes the sigmoid of them again; in training it is given logits"
[say.of_]
training = "the loss"
evaluation = "the loss of the evaluation"
[say.now_]
training = "; it is {loss}"
[params.same]
value = 1e-4
doc = "Relative difference up to which two numbers are the same one, taken in float32 on two ways."
source = "convention: of this project, float32 carries seven digits; two ways of computing agree in four at least"
[params.above_one]
value = 1.0001
doc = "Largest probability."
source = "convention: of this project, one, and rounding of half precision"
[params.rounding]
value = 1e-3
unit = "relative"
doc = "Share by which a sum may differ from what it should be."
source = "convention: of this project, rounding of half precision"
[params.looks]
value = 3
unit = "looks"
doc = "Looks that must show it."
source = "convention: of this project, fewer may be chance"
[params.nearly_all]
value = 0.9
unit = "of the looks"
doc = "Share of the looks that must show it by their values."
source = "convention: of this project, one of ten may round"
[needs]
tables = ["batches", "tensor_stats"]
kinds = ["output"]
steps = 3
[doc]
what = "The result of a softmax or sigmoid goes into a loss that applies it itself, as the graph shows. Or a model's output is between 0 and 1 and adds up to one per sample. Then the log-softmax of cross_entropy follows. Or the output of a Sigmoid module goes into binary_cross_entropy_with_logits unchanged. Or a loss module is given logits in training and probabilities in every evaluation that was looked at."
why = "Softmax of probabilities is nearly flat. The loss ends at ln(e + C - 1) - 1 and gradients are small."
not_this = "Scores that are divided by a temperature first, probabilities whose logarithm is taken for nll_loss. Logits that happen to be small, values between 0 and 1 that no Sigmoid module made."
source = "Arithmetic: logits in [0, 1] that sum to 1 give at best 1 - ln(e + C - 1). Sigmoid of a number between 0 and 1 is between 0.5 and 0.73. So no target 0 costs less than ln 2 and no target 1 less than ln(1 + 1/e)."
*/
-- shared
WITH given AS (
    SELECT s.rank, s.step, min(s.min) AS low, max(s.max) AS high, any_value(s.numel) AS numel
    FROM tensor_stats s
    JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id
    WHERE t.kind = 'output' AND t.tensor_name = 'loss:input' GROUP BY s.rank, s.step
)
-- detector: softmax_twice
WITH roots AS (
    SELECT s.rank, s.step, s.seq, m.model, m.module, s.sum, s.numel, s.min, s.max, t.tensor_name AS tensor
    FROM tensor_stats s
    JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id AND t.kind = 'activation'
    JOIN modules m ON m.rank = t.rank AND m.module_id = t.module_id
    WHERE s.phase = 'forward'
      AND s.nan_count + s.inf_count = 0
      AND s.min >= 0
      AND s.max <= $above_one
      AND (m.depth = 0 OR m.class_name = 'Softmax')
), targets AS (
    SELECT rank, step, any_value(classes) AS classes, bool_or(loss_op LIKE 'NllLoss%') AS nll
    FROM batches
    WHERE role = 'target' AND classes > 1 AND phase <> 'eval'
    GROUP BY rank, step
), judged AS (
    SELECT r.rank, r.step, r.model, r.module, r.tensor, t.classes, ln(exp(1) + t.classes - 1) - 1 AS floor,
        abs(r.sum - r.numel / t.classes) < $rounding * r.numel / t.classes
            AND g.low >= -ln(exp(1) + t.classes - 1) - $rounding
            AND g.high <= 1 - ln(exp(1) + t.classes - 1) + $rounding
            AND g.numel = r.numel
        -- both ends are the logarithms of the probabilities: log and nll_loss, which is right
        AND NOT (r.min > 0
            AND abs(g.high - ln(r.max)) <= $same * abs(ln(r.max))
            AND abs(g.low - ln(r.min)) <= $same * abs(ln(r.min))) AS fits
    FROM roots r
    JOIN targets t ON t.rank = r.rank AND t.step = r.step AND t.nll
    JOIN given g ON g.rank = r.rank AND g.step = r.step
    QUALIFY row_number() OVER (PARTITION BY r.rank, r.step ORDER BY r.seq DESC) = 1
)
SELECT rank, step, model, module, tensor, floor, classes, 'softmax_of_probabilities' AS what_,
    true AS by_value
FROM judged WHERE fits
-- detector: sigmoid_twice
WITH sigmoids AS (
    -- the last module that puts out anything before the loss is a Sigmoid, and its output is what the loss is
    -- given
    SELECT r.rank, r.step, r.model, r.module, r.tensor, g.low >= 0
        AND g.high <= 1
        AND g.numel = r.numel
        AND g.low = r.min
        AND g.high = r.max AS fits
    FROM (
        SELECT s.rank, s.step, m.model, m.module, m.class_name, t.tensor_name AS tensor, s.numel, s.min, s.max
        FROM tensor_stats s
        JOIN tensors t ON t.rank = s.rank
            AND t.tensor_id = s.tensor_id
            AND t.kind = 'activation'
            AND t.tensor_name LIKE '%:output0'
        JOIN modules m ON m.rank = t.rank AND m.module_id = t.module_id
        WHERE s.phase = 'forward'
          AND NOT EXISTS (FROM modules c
              WHERE c.rank = m.rank AND c.parent_id = m.module_id AND c.call_order IS NOT NULL)
        QUALIFY row_number() OVER (PARTITION BY s.rank, s.step ORDER BY s.seq DESC) = 1) r
    JOIN given g ON g.rank = r.rank AND g.step = r.step
    WHERE r.class_name = 'Sigmoid' AND EXISTS (
        FROM batches b
        WHERE b.rank = r.rank
          AND b.step = r.step
          AND b.phase <> 'eval'
          AND b.loss_op = 'BinaryCrossEntropyWithLogits')
)
-- at best every target is 1
SELECT rank, step, model, module, tensor, ln(1 + exp(-1)) AS floor,
    'sigmoid_of_a_sigmoid' AS what_, true AS by_value
FROM sigmoids WHERE fits
-- detector: seen_in_the_graph
WITH in_graph AS (
    SELECT o.rank, o.step, o.op, o.saved, o.seq, any_value(b.classes) AS classes FROM operators o
    LEFT JOIN batches b ON b.rank = o.rank
        AND b.step = o.step
        AND b.role = 'target'
        AND b.loss_op = o.op
        AND b.phase <> 'eval'
    WHERE o.trigger = 'risk'
      -- a sigmoid before cross_entropy is no pair of activation and loss at all
      AND (o.op LIKE 'NllLoss%' AND o.saved = 'softmax'
          OR o.op = 'BinaryCrossEntropyWithLogits' AND o.saved IN ('softmax', 'sigmoid'))
    GROUP BY ALL
)
SELECT rank, step, NULL AS model, NULL AS module, NULL AS tensor,
    -- the sum over the other classes is at least (C - 1) e^0, and at best the right one has e^1
    CASE
        WHEN op = 'BinaryCrossEntropyWithLogits' THEN ln(1 + exp(-1))
        ELSE ln(exp(1) + classes - 1) - 1
        END AS floor,
    CASE op WHEN 'BinaryCrossEntropyWithLogits' THEN 'sigmoid_again' ELSE 'softmax_again' END AS what_,
    saved, false AS by_value
FROM in_graph
-- detector: in_evaluation
WITH looks AS (
    SELECT e.rank, e.step, e.detail ->> '$.loss' AS loss_module, (e.detail ->> '$.classes')::INT AS classes,
        (e.detail ->> '$.low')::DOUBLE AS low, (e.detail ->> '$.high')::DOUBLE AS high,
        coalesce((e.detail ->> '$.off_one')::DOUBLE, 0) AS off_one
    FROM events e WHERE e.event = 'evaluated-loss'
), kinds AS (
    SELECT rank, loss_module, min(low) AS low, max(high) AS high
    FROM looks GROUP BY rank, loss_module
    HAVING min(low) >= 0 AND max(high) <= $above_one AND max(off_one) <= $rounding
), trained AS (
    -- what the training gives to its loss no softmax or sigmoid has been through
    SELECT DISTINCT g.rank, b.classes
    FROM given g
    JOIN batches b ON b.rank = g.rank AND b.step = g.step AND b.role = 'target' AND b.phase <> 'eval'
    WHERE CASE
        WHEN b.loss_op LIKE 'NllLoss%' THEN g.low < -ln(exp(1) + b.classes - 1) - $rounding
        WHEN b.loss_op = 'BinaryCrossEntropyWithLogits' THEN g.low < 0 OR g.high > $above_one
    END
)
SELECT l.rank, l.step, NULL AS model, NULL AS module, NULL AS tensor, l.loss_module, k.low, k.high,
    CASE WHEN l.classes IS NULL THEN ln(1 + exp(-1)) ELSE ln(exp(1) + l.classes - 1) - 1 END AS floor,
    l.classes,
    CASE WHEN l.classes IS NULL THEN 'sigmoid_in_evaluation' ELSE 'softmax_in_evaluation' END AS what_,
    'evaluation' AS of_, false AS by_value
FROM looks l
JOIN kinds k ON k.rank = l.rank AND k.loss_module = l.loss_module
JOIN trained t ON t.rank = l.rank AND t.classes IS NOT DISTINCT FROM l.classes
WHERE NOT EXISTS (FROM operators o WHERE o.rank = l.rank AND o.trigger = 'risk'
    AND o.saved IN ('softmax', 'sigmoid') AND o.phase <> 'eval')
-- together
WITH looked_at AS (
    -- steps in which what a model puts out was measured, whatever it was
    SELECT DISTINCT s.rank, s.step
    FROM tensor_stats s
    JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id AND t.kind = 'activation'
    JOIN modules m ON m.rank = t.rank AND m.module_id = t.module_id
    JOIN given g ON g.rank = s.rank AND g.step = s.step
    WHERE s.phase = 'forward' AND (m.depth = 0 OR m.class_name IN ('Softmax', 'Sigmoid'))
)
SELECT j.rank, min(j.step) AS step, any_value(j.model) AS model, arg_min(j.module, j.step) AS module,
    arg_min(j.tensor, j.step) AS tensor, any_value(j.what_) AS what_,
    any_value(j.classes) AS classes, any_value(j.saved) AS saved,
    any_value(j.loss_module) AS loss_module, any_value(j.low) AS low, any_value(j.high) AS high,
    coalesce(any_value(j.of_), 'training') AS of_,
    CASE WHEN any_value(j.of_) IS NULL THEN 'training' END AS now_,
    any_value(j.floor) AS floor, any_value(j.floor) AS value,
        (SELECT arg_max(loss, step) FROM steps s WHERE s.rank = j.rank AND isfinite(s.loss)) AS loss
FROM found j GROUP BY j.rank, j.by_value
HAVING count(*) >= $looks
    AND (NOT j.by_value
        OR count(*) >= $nearly_all * (SELECT count(*)
            FROM looked_at l
            WHERE l.rank = j.rank AND l.step >= min(j.step)))
QUALIFY row_number() OVER (PARTITION BY j.rank ORDER BY min(j.step), NOT j.by_value) = 1
ORDER BY step, j.rank
