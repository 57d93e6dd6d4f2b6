/*
code = "MO039"
name = "uninitialised-parameter"
severity = "error"
phase = "forward"
signal = "source"
message = "{place} makes parameter {attribute} of {holder_} out of memory as it is ({text}), and nothing fills it: {held_}."
fix = "Fill it where it is made: torch.zeros instead of torch.empty, or nn.init.zeros_(self.{attribute}) for a bias and nn.init.xavier_uniform_ for a weight."
seeks = ["events: event = 'parameter-unfilled'"]
explains = ["nonfinite-weights-loaded", "nonfinite-values", "bad-init-scale", "exploding-activations", "loss-off-course"]
[say.holder_]
root = "the root module"
named = "{module}"
[say.held_]
lost = "{value} of its {numel} values were not finite at the first step"
some = "its {numel} values reached {largest:.4g} at the first step, and are others in the next run"
zeros = "its {numel} values were zero this time, which is luck"
[needs]
tables = ["events", "modules"]
[doc]
what = "A class makes a parameter by torch.empty or torch.Tensor(sizes), no code fills it, and its counter of writes is 0 as the model is called for the first time. It is advice where all values are zero."
why = "Memory holds what was there before: mostly zeros or small numbers, now and then huge ones or NaN. Runs differ, and some are lost in the first step."
not_this = "A parameter that any method but forward names, that a function reaches by apply(), parameters() or .data, or that was loaded."
source = "PyTorch's documentation of torch.empty: uninitialised data. The tensor's version counter."
*/
SELECT e.rank, e.step, m.module, (e.detail ->> '$.lost')::BIGINT AS value,
    (e.detail ->> '$.numel')::BIGINT AS numel,
    (e.detail ->> '$.largest')::DOUBLE AS largest, e.detail ->> '$.place' AS place,
    e.detail ->> '$.text' AS text, e.detail ->> '$.attribute' AS attribute,
    if(m.module = '', 'root', 'named') AS holder_,
    CASE WHEN value > 0 THEN 'lost' WHEN largest > 0 THEN 'some' ELSE 'zeros' END AS held_,
    if(held_ = 'zeros', 'warning', 'error') AS severity
FROM events e
JOIN modules m ON m.rank = e.rank AND m.module_id = e.module_id
WHERE e.event = 'parameter-unfilled'
ORDER BY e.step, e.rank, m.module_id
