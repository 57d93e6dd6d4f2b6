/*
code = "RE008"
name = "restored-from-alias"
severity = "error"
phase = "eval"
signal = "shared"
message = "At step {step} load_state_dict put into {content} what it already held. There {shared} of {matched} tensors of the state dict{since_} are the model's own memory. So nothing was restored. The model stays as the last step left it."
fix = "Copy the weights when they are kept: best = copy.deepcopy(model.state_dict()), or torch.save them. A state_dict() holds references, and the optimizer writes to the tensors behind them."
explains = ["overfit"]
[say.since_]
taken = " taken at step {taken_step}"
[params.all]
value = 0.9
unit = "share"
doc = "Tensors that share memory, of those that matched: a few may be tied or made again."
source = "convention: of this project, a few tensors may be tied or made again"
[needs]
tables = ["checkpoints", "steps"]
[doc]
what = "The tensors of a state dict are the memory of the module that it is loaded into. Training steps came after it was taken."
why = "The best weights that were kept by reference have followed the training to the end."
not_this = "A state that was taken in the same step, before any training, or that is assigned (assign=True)."
source = "Identity of memory addresses."
*/
WITH loads AS (
    SELECT c.*, coalesce(c.taken_step, 0) AS since_step FROM checkpoints c
    WHERE c.action = 'weights'
      AND c.matched > 0
      AND c.shared >= $all * c.matched
      AND NOT coalesce(c.assigned, false)
)
SELECT l.rank, l.step, l.module_id, l.content, l.shared, l.matched, l.shared AS value, l.taken_step,
    CASE WHEN l.taken_step IS NOT NULL THEN 'taken' END AS since_
FROM loads l
-- weights have moved since it was taken
WHERE EXISTS (FROM steps s WHERE s.rank = l.rank AND s.stepped AND s.step >= l.since_step AND s.step < l.step)
QUALIFY row_number() OVER (PARTITION BY l.rank ORDER BY l.step, l.time_ns) = 1
ORDER BY l.step, l.rank
