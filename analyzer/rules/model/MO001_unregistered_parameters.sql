/*
code = "MO001"
name = "unregistered-parameters"
severity = "error"
phase = "forward"
signal = "registered"
message = "{holder_} {what_}. There `parameters()` does not find them, so no optimizer trains them and no checkpoint holds them."
fix = "{remedy_}"
seeks = [
    [
        "tensors: registered = false AND optimizer_id IS NULL AND requires_grad",
        "events: event = 'parameter-wrapped'",
        "events: event = 'leaf-attribute'",
        "events: event = 'model-found' AND detail IS NOT NULL",
    ],
]
explains = ["parameters-not-in-optimizer", "nothing-learnt", "graph-retained-across-steps"]
[say.holder_]
root = "The model {model}"
named = "{module}"
[say.what_]
in_a_container = "keeps {value} parameters ({names}) in a Python list or dict, or in an object that is no module"
wrapped = "keeps {value} tensors ({attributes:names}) that an operation made of a Parameter ({operations}), and not the Parameter itself"
made_anew = "makes its layers ({classes:names}) anew in each forward"
plain = "keeps {value} tensors ({attributes:names}) that ask for a gradient and stand in the loss, and that are no Parameters"
[say.remedy_]
wrap = "Make it a Parameter: self.{first} = nn.Parameter(value)."
container = "Put the modules into nn.ModuleList or nn.ModuleDict (parameters into nn.ParameterList). Derive a layer's class from nn.Module."
make_once = "Make the layers once, in __init__, as attributes of the module, and only call them in forward."
parameter_last = "Make the Parameter last: self.{first} = nn.Parameter(value), without an operation on it. Move the whole model with model.to(device)."
[params.anew]
value = 8
unit = "steps"
doc = "Steps in which a forward was seen to call layers that were made in it."
source = "convention: of this project, fewer may be layers that are made on demand, one for each size of input"
[needs]
tables = ["modules"]
[doc]
what = "Parameters that a module of the model holds in a plain Python container. Or an object that is no module holds them and gradients reach them. Or a tensor attribute that was computed from a Parameter, as by nn.Parameter(w).cuda(), while no module holds that Parameter. Or a tensor attribute with requires_grad=True that is no Parameter, while it is in the graph of the losses, no optimizer holds it, and its values stay. Or layers that a forward makes anew each time."
why = "They are used in the forward pass but belong to nobody: never updated, moved or saved."
not_this = "ModuleList and ParameterList; parameters that are registered elsewhere in the model; ones that an optimizer was given by hand. Tensors that are computed from registered parameters, as by weight norm."
source = "The model's own attributes, and the autograd graph behind them."
*/
-- detector: in_a_container
SELECT t.rank,
    -- those that are there from the beginning are called within the first forward of their model
    coalesce((SELECT min(e.step)
        FROM events e
        JOIN modules o ON o.rank = e.rank AND o.module_id = e.module_id
        WHERE e.event = 'unregistered' AND e.rank = t.rank AND o.model = m.model),
        0) AS step,
    m.module, m.model, any_value(t.tensor_name ORDER BY t.tensor_id) AS tensor, count(*) AS value,
    array_to_string(list(t.tensor_name ORDER BY t.tensor_id)[:3], ', ') AS names,
    CASE m.module WHEN '' THEN 'root' ELSE 'named' END AS holder_, 'in_a_container' AS what_,
    'container' AS remedy_
FROM tensors t JOIN modules m ON m.rank = t.rank AND m.module_id = t.module_id
WHERE t.registered = false AND t.optimizer_id IS NULL AND t.requires_grad
GROUP BY t.rank, m.module, m.model
-- detector: wrapped
SELECT e.rank, min(e.step) AS step, m.module, m.model, count(*) AS value,
    min(e.detail ->> '$.attribute') AS first,
    list(e.detail ->> '$.attribute' ORDER BY e.detail ->> '$.attribute') AS attributes,
    string_agg(DISTINCT e.detail ->> '$.operation', ', ' ORDER BY e.detail ->> '$.operation') AS operations,
    CASE m.module WHEN '' THEN 'root' ELSE 'named' END AS holder_, 'wrapped' AS what_,
    'parameter_last' AS remedy_
FROM events e JOIN modules m ON m.rank = e.rank AND m.module_id = e.module_id
WHERE e.event = 'parameter-wrapped'
GROUP BY e.rank, m.module, m.model
-- detector: plain
SELECT e.rank, min((e.detail ->> '$.first')::BIGINT) AS step, m.module, m.model, count(*) AS value,
    min(e.detail ->> '$.attribute') AS first,
    list(e.detail ->> '$.attribute' ORDER BY e.detail ->> '$.attribute') AS attributes,
    CASE m.module WHEN '' THEN 'root' ELSE 'named' END AS holder_, 'plain' AS what_, 'wrap' AS remedy_
FROM events e JOIN modules m ON m.rank = e.rank AND m.module_id = e.module_id
WHERE e.event = 'leaf-attribute'
GROUP BY e.rank, m.module, m.model
-- detector: made_anew
SELECT e.rank, min(e.step) AS step, o.module, o.model, count(DISTINCT e.step) AS value,
    list(DISTINCT m.class_name ORDER BY m.class_name) AS classes,
    CASE o.module WHEN '' THEN 'root' ELSE 'named' END AS holder_, 'made_anew' AS what_,
    'make_once' AS remedy_
FROM events e
JOIN modules m ON m.rank = e.rank AND m.module_id = e.module_id
JOIN modules o ON o.rank = e.rank AND o.module_id = (e.detail ->> '$.within')::BIGINT
JOIN (
    SELECT t.rank, coalesce(p.parent_id, t.module_id) AS module_id, t.optimizer_id FROM tensors t
    JOIN modules p ON p.rank = t.rank AND p.module_id = t.module_id
    WHERE t.kind = 'parameter' AND t.requires_grad
) t ON t.rank = m.rank AND t.module_id = m.module_id
WHERE e.event = 'model-found'
GROUP BY e.rank, o.module, o.model
HAVING count(DISTINCT e.step) >= $anew AND count(t.optimizer_id) = 0
-- together
ORDER BY rank, module, what_
