/*
code = "RE009"
name = "checkpoint-not-loaded"
severity = "error"
phase = "data"
signal = "matched"
message = "At step {step} {how_} {left_}"
fix = "{remedy_}"
seeks = ["checkpoints: action = 'weights' AND (missing > 0 OR overwritten > $most * matrices)"]
explains = ["nothing-learnt"]
[say.how_]
no_keys = "load_state_dict(strict=False) left {content} with its initial weights. Of the {entries} keys of the state dict, {matched} are keys of the model and {unexpected} are not. The state dict lacks {missing} keys of the model."
overwritten = "the weights that load_state_dict put into {content} were written over before they were used. Of {matrices} weight matrices {value}, first {tensor}, have nothing of the loaded values."
[say.remedy_]
no_keys = "Compare one key of each. Usually a prefix differs, such as 'module.' of DistributedDataParallel, '_orig_mod.' of torch.compile or 'model.' of a wrapper. Remove it, or load the state one level deeper in the checkpoint. Save frozen weights too: take model.state_dict(), not only what the optimizer holds. With strict=True torch says so at once."
overwritten = "Initialise first and load afterwards. Or leave what was loaded out of the initialisation: model.apply(…) and a loop over model.modules() reach the loaded part too."
[say.left_]
overwritten = "The training begins from other weights."
initial_weights = "The model trains from the weights it was made with."
other_frozen_weights = "{value} frozen weights, first {tensor}, are not the ones that the loaded weights were trained with."
[params.least]
value = 0.1
unit = "share"
doc = "Keys that met, of those in the state dict, up to which nothing was loaded to speak of."
source = "convention: of this project, nine of ten keys did not meet"
[params.most]
value = 0.5
unit = "of the matrices"
doc = "Share of the loaded weight matrices that were written over."
source = "arithmetic: more than half. A head that is made anew on purpose is less"
[params.entries]
value = 4
unit = "keys"
doc = "Keys in the state dict below which a share says nothing."
source = "convention: of this project, of three keys a share says nothing"
[params.rounding]
value = 1e-6
doc = "Share by which two sums of squares of the same values may differ: the order of adding is not the same everywhere."
source = "arithmetic: some sixteen roundings of float32, 2^-24"
[needs]
tables = ["checkpoints"]
[doc]
what = "The module has hardly any key of a state dict that was put in with strict=False. Or a state dict, loaded together with optimizer state, lacks frozen weights. These are no longer the ones the model was trained with before. Or most weight matrices that were loaded hold other values when the first step begins, without likeness to the loaded ones."
why = "Nothing fails, and the model starts untrained."
not_this = "A backbone that is loaded into a larger model, a head that is left out. There most keys of the state dict match. An adapter whose frozen base is the same as before. A head that is made anew after loading; a second state that is loaded over the first; weights that were scaled or rounded."
source = "Counting keys, and sums of weights that nothing trains."
*/
-- shared
WITH loads AS (
    SELECT * FROM checkpoints WHERE action = 'weights' AND missing > 0
)
-- detector: no_key_meets
SELECT rank, step, time_ns, module_id, NULL AS tensor, content, matched, entries, unexpected, missing,
    matched AS value, 'no_keys' AS how_, 'initial_weights' AS left_, 'no_keys' AS remedy_
FROM loads
WHERE entries >= $entries AND matched <= $least * entries AND unexpected > 0
-- detector: frozen_weights_left_out
WITH frozen AS (
    -- weights that nothing trains, by the step at which they were first seen; a model that was made again has
    -- its own
    SELECT t.rank, t.tensor_name, t.tensor_id, t.module_id, min(s.step) AS step,
        arg_min(s.sum, s.step) AS sum, arg_min(s.sum_sq, s.step) AS sum_sq
    FROM tensors t JOIN tensor_stats s ON s.rank = t.rank AND s.tensor_id = t.tensor_id
    WHERE t.kind = 'parameter' AND t.optimizer_id IS NULL AND NOT t.requires_grad
    GROUP BY t.rank, t.tensor_name, t.tensor_id, t.module_id
), changed AS (
    SELECT l.rank, l.step, l.time_ns, n.tensor_name AS tensor, n.module_id, l.content, l.matched, l.entries,
        l.unexpected, l.missing
    FROM loads l
    JOIN checkpoints o ON o.rank = l.rank AND o.step = l.step AND o.action = 'optimizer' AND o.state_step > 0
    JOIN frozen n ON n.rank = l.rank AND n.step >= l.step
    JOIN frozen b ON b.rank = n.rank AND b.tensor_name = n.tensor_name AND b.step < l.step
    WHERE l.matched > 0 AND abs(n.sum_sq - b.sum_sq) > $rounding * b.sum_sq
    QUALIFY row_number() OVER (PARTITION BY l.rank, l.step, n.tensor_name ORDER BY b.step DESC, n.step) = 1
)
SELECT rank, step, time_ns, arg_min(module_id, tensor) AS module_id, min(tensor) AS tensor, content, matched,
    entries, unexpected, missing,
    count(*) AS value, 'no_keys' AS how_, 'other_frozen_weights' AS left_, 'no_keys' AS remedy_
FROM changed
GROUP BY rank, step, time_ns, content, matched, entries, unexpected, missing
HAVING count(*) <= missing
-- detector: written_over
SELECT rank, step, time_ns, module_id, overwritten_weight AS tensor, content, matrices, overwritten AS value,
    'overwritten' AS how_, 'overwritten' AS left_, 'overwritten' AS remedy_
FROM checkpoints
WHERE action = 'weights' AND overwritten > $most * matrices
-- together
SELECT * FROM found
QUALIFY row_number() OVER (PARTITION BY rank ORDER BY step, time_ns) = 1
ORDER BY step, rank
