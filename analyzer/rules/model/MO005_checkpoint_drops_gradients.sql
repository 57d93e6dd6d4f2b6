/*
code = "MO005"
name = "checkpoint-drops-gradients"
severity = "error"
phase = "backward"
signal = "gradient"
message = "From step {step} on {place_} runs under reentrant activation checkpointing with inputs that require no gradient: {what_}."
fix = "Call checkpoint(..., use_reentrant=False); or make an input of the block require a gradient (x.requires_grad_(), model.enable_input_require_grads())."
seeks = ["probes: probe = 'checkpointed_without_graph'"]
explains = ["broken-graph", "parameters-not-in-optimizer", "gradients-vanish", "python-exception", "unused-module", "no-optimizer-step"]
[say.place_]
root = "the model ({class_name})"
named = "{module} ({class_name})"
[say.what_]
no_gradient = "{value} of its weights, which the optimizer holds, get no gradient ({steps} steps)"
backward_refused = "the loss requires no gradient, and backward is refused"
[params.steps]
value = 2
unit = "steps"
doc = "Steps in which the weights inside have no gradient, and none in which they have."
source = "convention: of this project, one step may be the first"
[needs]
tables = ["probes", "modules"]
[doc]
what = "A block is checkpointed the reentrant way, and none of its inputs requires a gradient. Weights inside it that an optimizer holds have no gradient from then on. Or backward was refused because nothing requires a gradient."
why = "Reentrant checkpointing builds a graph only where an input requires a gradient. Otherwise the weights inside get none, and only a warning says so."
not_this = "Blocks whose weights are frozen or get their gradients another way, and checkpointing without reentry."
source = "torch.utils.checkpoint: at least one input has to require a gradient with use_reentrant=True."
*/
WITH blocks AS (
    SELECT rank, module_id, min(step) AS step, min(microbatch) AS microbatch, max(step) AS last_step
    FROM probes
    WHERE probe = 'checkpointed_without_graph'
    GROUP BY rank, module_id
), weights AS (
    SELECT b.rank, b.module_id, p.tensor_id, min(g.step) AS step, count(DISTINCT g.step) AS steps
    FROM blocks b JOIN module_tree t ON t.rank = b.rank AND t.ancestor_id = b.module_id
    JOIN parameters p ON p.rank = t.rank AND p.module_id = t.module_id AND p.optimizer_id IS NOT NULL
    JOIN param_steps g ON g.rank = p.rank AND g.tensor_id = p.tensor_id AND g.step >= b.step
    GROUP BY b.rank, b.module_id, p.tensor_id
    HAVING bool_and(NOT g.frozen AND (g.missing OR (g.sum_sq = 0 AND g.nonfinite_count = 0)))
        AND count(DISTINCT g.step) >= $steps
), lost AS (
    SELECT rank, module_id, min(step) AS step, 'no_gradient' AS what_, count(*) AS value, max(steps) AS steps
    FROM weights GROUP BY rank, module_id
    UNION ALL
    SELECT b.rank, b.module_id, b.last_step, 'backward_refused', 1, NULL
    FROM blocks b
    JOIN exits e ON coalesce(e.rank, b.rank) = b.rank
        AND e.exception_message LIKE '%does not require grad and does not have a grad_fn%'
        AND b.last_step >= coalesce(e.step, b.last_step)
)
SELECT l.rank, l.step, 'backward' AS phase, m.module, m.class_name, l.value, l.steps, l.what_,
    CASE m.module WHEN '' THEN 'root' ELSE 'named' END AS place_
FROM lost l JOIN modules m ON m.rank = l.rank AND m.module_id = l.module_id
ORDER BY l.step, l.rank, m.call_order
