/*
code = "MO023"
name = "tied-weights-untied"
severity = "error"
phase = "forward"
signal = "storage"
message = "At step {step} {sentence}: from here on they are trained as two weights, or one of them not at all."
fix = "Tie them again after whatever replaced one of them (head.weight = embedding.weight), and before the optimizer is made. Do the same after load_state_dict(assign=True), deepcopy of a part, or surgery on the model."
seeks = ["events: event = 'weights-untied'"]
explains = ["second-moment-collapse", "parameters-not-in-optimizer", "loss-off-course", "unused-module", "frozen-by-zero-gradient", "symmetric-init"]
[needs]
tables = ["events", "steps"]
[doc]
what = "Two names in a model that shared one storage stop sharing it. As a warning: an embedding and a linear layer of equal shape begin with the same numbers in two tensors."
why = "A tied head learns from the embedding's gradient and the other way round. Untied, they drift apart without any error, and the optimizer usually holds only one of them."
not_this = "Weights that are replaced together and stay tied."
source = "Identity of storage."
*/
SELECT e.rank, e.step, m.module, e.message AS sentence,
    CASE WHEN e.message LIKE '%no longer one tensor' THEN 'error' ELSE 'warning' END AS severity, 1.0 AS value
FROM events e LEFT JOIN modules m ON m.rank = e.rank AND m.module_id = e.module_id
WHERE e.event = 'weights-untied'
ORDER BY severity, e.step, e.rank, sentence
