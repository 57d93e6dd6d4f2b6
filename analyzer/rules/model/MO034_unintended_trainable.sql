/*
code = "MO034"
name = "unintended-trainable"
severity = "error"
phase = "optimizer"
signal = "requires_grad"
message = "From step {step} on {what_}."
fix = "{remedy}"
seeks = [
    [
        "param_steps: frozen AND NOT missing",
        "events: event IN ('mode-undone', 'freeze-missed')",
        "parameters: class_name LIKE '%BatchNorm%' AND requires_grad IS DISTINCT FROM true",
    ],
]
explains = ["frozen-by-zero-gradient", "train-mode-in-eval"]
[say.why_]
on_a_module = "On a module this is an attribute like any other, and its parameters do not see it"
misspelt = "A parameter knows no such attribute, and takes it without a word"
[say.what_]
moved_by_the_optimizer = "{value} parameters do not require gradients ({names}), and the optimizer goes on moving them: their .grad was left behind, so that old gradients, momentum and weight decay still act"
mode_undone = "{module} ({class_name}) trains in training mode, although the script has put it into eval mode to freeze it: train() of the whole model has put it back, and its batch norms and dropout act as in training"
statistics_of_frozen_norms = "{value} batch norms whose weights are frozen (first {module}) run in training mode: their running means and variances follow the data of this training"
freeze_missed = "{value} parameters go on training though the script has set {attribute} = False to freeze them ({parts}). {why_}"
[say.remedy]
moved_by_the_optimizer = "Set .grad to None when parameters are frozen (zero_grad(set_to_none=True)), or take them out of the optimizer."
mode_undone = "Call eval() on the frozen part again after each train() of the model, or override train() of the model so that the part stays in eval mode."
statistics_of_frozen_norms = "Call eval() on the frozen part after each train() of the model, if its features are to stay as they were."
freeze_missed = "Call requires_grad_(False) on the module, or set p.requires_grad = False for each p of its parameters(), before the optimizer is made."
[params.lasting]
value = 3
unit = "steps"
doc = "Steps in which frozen parameters move."
source = "convention: of this project, one or two may be the step in which they are frozen"
[params.mostly]
value = 0.8
unit = "of the steps"
doc = "Share of the steps since the freeze in which they do, up to the last in which they do."
source = "convention: of this project, four of five: a momentum that dies away ends some time"
[params.given]
value = 3
doc = "Different gradients of a parameter with requires_grad False from which it is a master copy that the script feeds."
source = "convention: of this project, two values may be left behind by one freeze"
[needs]
tables = ["tensors", "modules"]
[doc]
what = "Parameters were frozen by requires_grad in the middle of the run, and the optimizer goes on moving them. It does so because a gradient, or zeros in its place, was left behind. Or the script put a part of a model into eval mode to freeze it, with nothing in it thawed. Then train() of the whole model put it back into train mode. Or the script set requires_grad on a module, or a misspelt attribute on its parameters, which freezes nothing. As a warning: batch norms with frozen weights run in training mode."
why = "Parts that should stay fixed drift. Old gradients, momentum and weight decay move frozen weights. Running statistics follow the new data, and dropout drops."
not_this = "Parts whose mode the script itself sets back, or whose parameters it thaws. Parts that are in eval mode for an evaluation only. Copies that the script feeds with gradients of its own."
source = "PyTorch's documentation: an optimizer skips parameters whose grad is None, not those that require none. And train() sets the mode of all modules in it."
*/
-- detector: moved_by_the_optimizer
WITH looks AS (
    SELECT p.rank, p.tensor_id, p.tensor, p.module, p.call_order, g.step, g.sum_sq, u.sum_sq AS moved
    FROM param_steps g
    JOIN parameters p ON p.rank = g.rank AND p.tensor_id = g.tensor_id AND p.optimizer_id IS NOT NULL
    JOIN tensor_stats u ON u.rank = p.rank AND u.tensor_id = p.update_id AND u.step = g.step
    WHERE g.frozen AND NOT g.missing
), moving AS (
    SELECT rank, tensor_id, any_value(tensor) AS tensor, any_value(module) AS module,
        any_value(call_order) AS call_order, min(step) FILTER (moved > 0) AS step,
        count(*) FILTER (moved > 0) AS times, max(step) FILTER (moved > 0) AS last, min(step) AS first
    FROM looks GROUP BY rank, tensor_id
    HAVING count(*) FILTER (moved > 0) >= $lasting
        AND count(DISTINCT CASE WHEN sum_sq > 0 THEN sum_sq END) < $given
)
SELECT rank, step, arg_min(module, place_of_call(call_order)) AS module,
    arg_min(tensor, place_of_call(call_order)) AS tensor, count(*) AS value,
    'error' AS severity, array_to_string(list(tensor ORDER BY tensor_id)[:3], ', ') AS names,
    'moved_by_the_optimizer' AS what_, what_ AS remedy
FROM moving
WHERE times >= $mostly * (last - first + 1)
GROUP BY rank, step
-- detector: mode_undone
SELECT e.rank, e.step, m.module, NULL AS tensor, NULL AS value, 'error' AS severity,
    m.class_name, 'mode_undone' AS what_, what_ AS remedy
FROM events e
JOIN modules m ON m.rank = e.rank AND m.module_id = e.module_id
WHERE e.event = 'mode-undone'
QUALIFY row_number() OVER (PARTITION BY e.rank ORDER BY e.step, m.depth, m.call_order) = 1
-- detector: freeze_missed
SELECT e.rank, min(e.step) AS step, arg_min(m.module, place_of_call(m.call_order)) AS module, NULL AS tensor,
    count(DISTINCT p.tensor_id) AS value, 'error' AS severity,
    array_to_string(list(DISTINCT m.module ORDER BY m.module)[:3], ', ') AS parts,
    any_value(e.detail ->> '$.attribute') AS attribute,
    if(attribute = 'requires_grad', 'on_a_module', 'misspelt') AS why_,
    'freeze_missed' AS what_, what_ AS remedy
FROM events e
JOIN modules m ON m.rank = e.rank AND m.module_id = e.module_id
JOIN module_tree t ON t.rank = m.rank AND t.ancestor_id = m.module_id
JOIN parameters p ON p.rank = t.rank AND p.module_id = t.module_id
    AND p.requires_grad AND p.optimizer_id IS NOT NULL
WHERE e.event = 'freeze-missed'
GROUP BY e.rank
-- detector: statistics_of_frozen_norms
WITH norms AS (
    -- frozen by requires_grad, though others train
    SELECT m.rank, m.module_id, m.module, m.class_name, m.call_order
    FROM modules m
    JOIN parameters p ON p.rank = m.rank AND p.module_id = m.module_id
    WHERE m.class_name LIKE '%BatchNorm%'
      AND m.module <> ''
      AND EXISTS (FROM parameters o JOIN modules n ON n.rank = o.rank AND n.module_id = o.module_id
          WHERE o.rank = m.rank AND o.requires_grad AND o.optimizer_id IS NOT NULL AND n.model = m.model)
      AND EXISTS (FROM module_modes c
          WHERE c.rank = m.rank AND c.module_id = m.module_id AND c.training AND c.grad)
      -- what the script writes at every step is an average of other weights
      AND NOT EXISTS (SELECT w.tensor_id FROM tensor_stats w
          WHERE w.rank = p.rank AND w.tensor_id = p.tensor_id
          GROUP BY w.tensor_id HAVING count(DISTINCT w.sum) >= $lasting)
    GROUP BY ALL HAVING NOT bool_or(p.requires_grad)
), followed AS (
    SELECT n.rank, n.module_id, any_value(n.module) AS module, any_value(n.class_name) AS class_name,
        any_value(n.call_order) AS call_order, min(s.step) AS step, count(DISTINCT s.sum) AS different
    FROM norms n
    JOIN tensors t ON t.rank = n.rank
        AND t.module_id = n.module_id
        AND t.kind = 'buffer'
        AND t.tensor_name LIKE '%running_mean'
    JOIN tensor_stats s ON s.rank = t.rank AND s.tensor_id = t.tensor_id
    GROUP BY n.rank, n.module_id HAVING count(DISTINCT s.sum) > $lasting
)
SELECT rank, min(step) AS step, arg_min(module, place_of_call(call_order)) AS module, NULL AS tensor,
    count(*) AS value, 'warning' AS severity,
    'statistics_of_frozen_norms' AS what_, what_ AS remedy
FROM followed GROUP BY rank
-- together
SELECT * FROM found
QUALIFY row_number() OVER (PARTITION BY rank ORDER BY severity, step) = 1 OR severity = 'error'
ORDER BY severity, step, rank
