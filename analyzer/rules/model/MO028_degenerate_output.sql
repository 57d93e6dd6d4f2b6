/*
code = "MO028"
name = "degenerate-output"
severity = "error"
phase = "forward"
signal = "activation"
message = "The output of {place_}{class_} is exactly {constant} for every sample from step {step} on. A {function} over one unit cannot give anything else. No gradient passes it, and nothing before it learns."
fix = "{remedy}"
seeks = [
    [
        "modules: class_name IN ('Softmax', 'LogSoftmax')",
        "events: event = 'softmax-of-one'",
    ],
]
explains = ["gradients-vanish", "nothing-learnt", "broken-graph", "dead-relu", "shuffled-labels", "saturated-activation"]
[say.place_]
root = "the root"
named = "{module}"
loss = "the loss's softmax"
softmax_in_root = "a softmax in the root"
softmax_in_named = "a softmax in {module}"
[say.class_]
known = " ({class_name})"
[say.remedy]
units_before_softmax = "Give the last layer one unit a class before a softmax; for a single unit use sigmoid with binary_cross_entropy, or the logit with binary_cross_entropy_with_logits."
units_before_cross_entropy = "Give the last layer one unit a class before a cross entropy; for a single unit use binary_cross_entropy_with_logits."
another_axis = "Let the softmax go along the axis of what is weighed, such as the places of a sequence, not along an axis of one element."
[params.least]
value = 3
unit = "steps"
doc = "Measured steps in which the output must be that constant."
source = "convention: of this project, one step may be the first"
[needs]
tables = ["tensor_stats", "modules"]
kinds = ["activation"]
steps = 3
[doc]
what = "The output of a Softmax or LogSoftmax module is exactly 1 (or 0) everywhere at every measured step. It normalises over an axis of one element. Or a softmax of the autograd graph goes along the one output of a linear layer, or weighs the elements of another axis in a matrix product. Attention weights along the wrong axis do so."
why = "exp(x) / exp(x) is 1 whatever x is, and its derivative is 0."
not_this = "Outputs that merely saturate: those differ from the bound in some sample or step."
source = "Arithmetic: the softmax of one number."
*/
-- detector: module_puts_out_a_constant
WITH constant AS (
    SELECT s.rank, s.step, s.seq, t.tensor_name AS tensor, m.model, m.module, m.class_name, m.call_order,
        CASE m.class_name WHEN 'LogSoftmax' THEN s.min = 0
            AND s.max = 0 ELSE s.min = 1
            AND s.max = 1 END AS fits
    FROM tensor_stats s
    JOIN tensors t ON t.rank = s.rank
        AND t.tensor_id = s.tensor_id
        AND t.kind = 'activation'
        AND t.requires_grad
    JOIN modules m ON m.rank = t.rank
        AND m.module_id = t.module_id
        AND m.class_name IN ('Softmax', 'LogSoftmax')
    WHERE s.phase = 'forward' AND s.nan_count + s.inf_count = 0
)
SELECT rank, min(step) AS step, module, tensor,
    any_value(class_name) AS class_name, 'known' AS class_, any_value(model) AS model,
    CASE any_value(class_name) WHEN 'LogSoftmax' THEN 0 ELSE 1 END AS constant,
    lower(any_value(class_name)) AS function, CASE module WHEN '' THEN 'root' ELSE 'named' END AS place_,
    count(*)::DOUBLE AS value, 'units_before_softmax' AS remedy, any_value(call_order) AS call_order
FROM constant GROUP BY rank, module, tensor HAVING bool_and(fits) AND count(*) >= $least
-- detector: softmax_of_one_output
SELECT e.rank, e.step, m.module, NULL AS tensor, m.class_name,
    CASE WHEN m.module IS NOT NULL THEN 'known' END AS class_, m.model,
    CASE WHEN e.detail ->> '$.operator' LIKE 'Log%' THEN 0 ELSE 1 END AS constant,
    CASE constant WHEN 0 THEN 'logsoftmax' ELSE 'softmax' END AS function,
    CASE WHEN m.module IS NULL THEN 'loss' WHEN m.module = '' THEN 'softmax_in_root'
        ELSE 'softmax_in_named' END AS place_, NULL::DOUBLE AS value,
    CASE WHEN m.module IS NULL THEN 'units_before_cross_entropy' ELSE 'another_axis' END AS remedy,
    m.call_order
FROM events e LEFT JOIN modules m ON m.rank = e.rank AND m.module_id = e.module_id
WHERE e.event = 'softmax-of-one'
-- together
SELECT * EXCLUDE (call_order) FROM found
QUALIFY row_number() OVER (PARTITION BY rank, module ORDER BY value NULLS LAST, step) = 1
ORDER BY step, rank, call_order
