/*
code = "PE010"
name = "single-tensor-optimizer"
severity = "warning"
phase = "optimizer"
signal = "optimizer_ns"
message = "{optimizer} updates its {tensors} tensors one by one (foreach is switched off): its step takes {percent} % of the time."
fix = "Pass fused=True, or leave foreach at its default on a GPU."
seeks = ["param_groups: json_extract_string(settings, '$.foreach') = 'false'"]
explains = []
[params.share]
value = 0.1
doc = "Share of the step from which it is worth a word."
source = "convention: of this project, a tenth: less is not worth a change"
[params.tensors]
value = 50
unit = "tensors"
doc = "Fewer are quick either way."
source = "convention: of this project, fewer launches are quick either way"
[needs]
tables = ["steps", "param_groups"]
columns = ["param_groups.settings", "steps.optimizer_ns"]
steps = 10
[doc]
what = "foreach=False in the settings of an optimizer with many tensors whose step takes a large share."
why = "Each tensor costs several kernel launches or calls."
not_this = "Optimizers without such an option, few tensors, steps in which the optimizer hardly counts."
source = "Documentation of torch.optim: fused is faster than foreach, foreach faster than one by one."
*/
WITH off AS (
    SELECT rank, optimizer_id, any_value(optimizer) AS optimizer, min(step) AS step FROM param_groups
    WHERE json_extract_string(settings, '$.foreach') = 'false'
      AND coalesce(json_extract_string(settings, '$.fused'), '') <> 'true'
    GROUP BY rank, optimizer_id
), share AS (
    SELECT rank, optimizer_id, median(optimizer_ns / step_ns) AS value
    FROM steps
    WHERE optimizer_ns IS NOT NULL AND step_ns > 0 AND stepped
    GROUP BY rank, optimizer_id
)
SELECT o.rank, o.step, s.value, percent_of(s.value) AS percent, o.optimizer, count(*) AS tensors
FROM off o JOIN share s ON s.rank = o.rank AND s.optimizer_id IS NOT DISTINCT FROM o.optimizer_id
JOIN tensors t ON t.rank = o.rank AND t.optimizer_id = o.optimizer_id AND t.kind = 'parameter'
WHERE s.value > $share
GROUP BY o.rank, o.step, s.value, o.optimizer
HAVING count(*) >= $tensors
ORDER BY o.step, o.rank
