/*
code = "MO011"
name = "symmetric-init"
severity = "error"
phase = "forward"
signal = "distinct_rows"
message = "All {rows} rows of {tensor} are the same and stay so while they are updated: its {rows} units are one."
fix = "Initialise {tensor} at random (fan-in); a constant cannot tell units apart."
explains = ["plateau", "underfit", "representation-collapse", "bad-init-scale"]
[needs]
tables = ["tensors"]
columns = ["tensors.distinct_rows"]
steps = 5
[doc]
what = "A weight whose rows are all equal at the start and still equal after several updates that changed it."
why = "Units that begin alike and get the same gradient remain alike: the layer has the width of one unit."
not_this = "A head or a branch that starts at zero and parts with its first gradient, embeddings, weights that do not train."
source = "Equality of rows at the start and at the steps 3 and 10."
*/
SELECT p.rank, 0 AS step, p.module, p.tensor, t.rows, t.distinct_rows AS value
FROM parameters p JOIN tensors t ON t.rank = p.rank AND t.tensor_id = p.tensor_id
JOIN tensor_stats u ON u.rank = p.rank AND u.tensor_id = p.update_id
WHERE t.distinct_rows = 1 AND t.rows >= 2 AND t.optimizer_id IS NOT NULL
GROUP BY ALL HAVING max(u.sum_sq) > 0 AND max(u.step) >= 3
ORDER BY p.rank, min(p.call_order), p.tensor
