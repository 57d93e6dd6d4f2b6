/*
code = "RE008"
name = "restored-from-alias"
severity = "error"
phase = "eval"
signal = "shared"
message = "{what_}"
fix = "{remedy_}"
seeks = [
    [
        "checkpoints: action = 'weights' AND shared > 0",
        "events: event = 'alias-kept'",
    ],
]
explains = ["overfit"]
[say.since_]
taken = " taken at step {taken_step}"
[say.what_]
loaded = "At step {step} load_state_dict put into {content} what it already held. There {shared} of {matched} tensors of the state dict{since_} are the model's own memory. So nothing was restored. The model stays as the last step left it."
one_model = "At step {step} {text} copied {content} into itself: {target} and {model} are one and the same model, so {target} follows every update and is no copy."
kept = "{place} keeps the best weights by reference ({text}). The loop trains {model} on, and with it what {target} holds. Line {use_line} then uses {target} ({use}). It finds the last weights there, not the best."
[say.remedy_]
copy_state = "Copy the weights when they are kept: best = copy.deepcopy(model.state_dict()), or torch.save them. A state_dict() holds references, and the optimizer writes to the tensors behind them."
two_models = "Make two models: {target} = copy.deepcopy({model}), or construct each. A second name refers to the same model."
copy_model = "Copy the model when it is kept: {target} = copy.deepcopy({model}). A second name refers to the same model, and the optimizer writes to its tensors."
[params.all]
value = 0.9
unit = "share"
doc = "Tensors that share memory, of those that matched: a few may be tied or made again."
source = "convention: of this project, a few tensors may be tied or made again"
[needs]
tables = ["steps"]
[doc]
what = "The tensors of a state dict are the memory of the module that it is loaded into. Training steps came after it was taken. Or the script copies one model to another by load_state_dict, and both names stand for one object. Or the source of a loop that trains shows it before: under a condition it keeps the model or its state_dict() by reference, and lines behind the loop use it."
why = "The best weights that were kept by reference have followed the training to the end."
not_this = "A state that was taken in the same step, before any training, or that is assigned (assign=True). In the source: a copy, a loop that makes a new model each time or ends with what it keeps, and what is only saved within the loop."
source = "Identity of memory addresses. Python's documentation: assignment binds a name to an object. MedMNIST/experiments #8, zhangj111/astnn #8."
*/
-- detector: loaded
WITH loads AS (
    SELECT c.*, coalesce(c.taken_step, 0) AS since_step FROM checkpoints c
    WHERE c.action = 'weights'
      AND c.matched > 0
      AND c.shared >= $all * c.matched
      AND NOT coalesce(c.assigned, false)
)
SELECT l.rank, l.step, l.time_ns, l.module_id, l.content, l.shared, l.matched, l.shared AS value,
    l.taken_step,
    CASE WHEN l.taken_step IS NOT NULL THEN 'taken' END AS since_, 'loaded' AS what_, 'copy_state' AS remedy_
FROM loads l
-- weights have moved since it was taken
WHERE EXISTS (FROM steps s WHERE s.rank = l.rank AND s.stepped AND s.step >= l.since_step AND s.step < l.step)
-- detector: one_model
WITH calls AS (
    SELECT c.*, regexp_extract(c.call, '^(.+)\.load_state_dict\((.+)\.state_dict\(\)',
            ['target', 'model']) AS names
    FROM checkpoints c
    WHERE c.action = 'weights'
      AND c.matched > 0
      AND c.shared >= $all * c.matched
      AND NOT coalesce(c.assigned, false)
)
SELECT rank, step, time_ns, module_id, content, shared, matched, shared AS value, call AS text,
    names.target AS target, names.model AS model, 'one_model' AS what_, 'two_models' AS remedy_
FROM calls
WHERE names.target <> '' AND names.target <> names.model
  AND EXISTS (FROM steps s WHERE s.rank = calls.rank AND s.stepped AND s.step < calls.step)
-- detector: kept_in_source
SELECT e.rank, e.step, e.time_ns, e.detail ->> '$.place' AS place, e.detail ->> '$.text' AS text,
    e.detail ->> '$.target' AS target, e.detail ->> '$.model' AS model, e.detail ->> '$.use' AS use,
    (e.detail ->> '$.use_line')::INT AS use_line, 'kept' AS what_,
    if((e.detail ->> '$.whole')::BOOL, 'copy_model', 'copy_state') AS remedy_
FROM events e
WHERE e.event = 'alias-kept'
-- together
SELECT * EXCLUDE (time_ns) FROM found
-- what was loaded says more than what was read
QUALIFY row_number() OVER (PARTITION BY rank ORDER BY what_ = 'kept', what_ = 'loaded', step, time_ns) = 1
ORDER BY step, rank
