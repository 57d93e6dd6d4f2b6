/*
code = "RE009"
name = "checkpoint-not-loaded"
severity = "error"
phase = "data"
signal = "matched"
message = "At step {step} load_state_dict(strict=False) put almost nothing into {content}: {matched} of the {entries} keys of the state dict are keys of the model, {unexpected} are not, and {missing} keys of the model were not given. The model trains from the weights it was made with."
fix = "Compare one key of each: usually a prefix differs, such as 'module.' of DistributedDataParallel, '_orig_mod.' of torch.compile or 'model.' of a wrapper. Remove it, or load the state that lies one level deeper in the checkpoint. With strict=True torch says so at once."
explains = ["underfit", "plateau"]
[params.least]
value = 0.1
unit = "share"
doc = "Keys that met, of those in the state dict, up to which nothing was loaded to speak of."
[params.entries]
value = 4
unit = "keys"
doc = "Keys in the state dict below which a share says nothing."
[needs]
tables = ["checkpoints"]
[doc]
what = "A state dict hardly any key of which the module has, put in with strict=False."
why = "Nothing fails, and the model starts untrained."
not_this = "A backbone that is loaded into a larger model, a head that is left out: most keys of the state dict meet there."
source = "Counting keys."
*/
SELECT rank, step, module_id, content, matched, entries, unexpected, missing, matched AS value
FROM checkpoints
WHERE action = 'weights'
  AND entries >= $entries
  AND matched <= $least * entries
  AND unexpected > 0
  AND missing > 0
QUALIFY row_number() OVER (PARTITION BY rank ORDER BY step, time_ns) = 1
ORDER BY step, rank
