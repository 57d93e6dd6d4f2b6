/*
code = "MO001"
name = "unregistered-parameters"
severity = "error"
phase = "forward"
signal = "registered"
message = "{holder_} keeps {value} parameters ({names}) in a Python list or dict. There `parameters()` does not find them, so no optimizer trains them and no checkpoint holds them."
fix = "Put the modules into nn.ModuleList or nn.ModuleDict (parameters into nn.ParameterList)."
explains = ["parameters-not-in-optimizer", "nothing-learnt"]
[say.holder_]
root = "The model {model}"
named = "{module}"
[needs]
tables = ["tensors"]
columns = ["tensors.registered"]
[doc]
what = "Parameters that a module of the model holds in a plain Python container."
why = "They are used in the forward pass but belong to nobody: never updated, moved or saved."
not_this = "ModuleList and ParameterList; parameters that are registered elsewhere in the model; ones that an optimizer was given by hand."
source = "The model's own attributes."
*/
SELECT t.rank,
    -- those that are there from the beginning are called within the first forward of their model
    coalesce((SELECT min(e.step)
        FROM events e
        JOIN modules o ON o.rank = e.rank AND o.module_id = e.module_id
        WHERE e.event = 'unregistered' AND e.rank = t.rank AND o.model = m.model),
        0) AS step,
    m.module, m.model, any_value(t.tensor_name ORDER BY t.tensor_id) AS tensor, count(*) AS value,
    array_to_string(list(t.tensor_name ORDER BY t.tensor_id)[:3], ', ') AS names,
    CASE m.module WHEN '' THEN 'root' ELSE 'named' END AS holder_
FROM tensors t JOIN modules m ON m.rank = t.rank AND m.module_id = t.module_id
WHERE t.registered = false AND t.optimizer_id IS NULL AND t.requires_grad
GROUP BY t.rank, m.module, m.model ORDER BY t.rank, m.module
