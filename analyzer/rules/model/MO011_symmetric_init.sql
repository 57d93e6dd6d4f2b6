/*
code = "MO011"
name = "symmetric-init"
severity = "error"
phase = "forward"
signal = "distinct_rows"
message = "All {rows} rows of {tensor} are the same and stay so {how_}: its {rows} units are one."
fix = "Initialise {tensor} at random (fan-in); a constant cannot tell units apart."
seeks = ["tensors: distinct_rows = 1 AND rows >= 2 AND optimizer_id IS NOT NULL"]
explains = ["nothing-learnt", "representation-collapse", "bad-init-scale", "dead-relu", "shuffled-labels", "frozen-by-zero-gradient"]
[say.how_]
while_updated = "while they are updated"
zero_gradient = "because no gradient comes through constants (it is exactly zero in all {steps} steps)"
[params.late]
value = 5
unit = "steps"
doc = "A weight that is first measured later than this was made in the course of the run."
source = "arithmetic: looks are at the steps 0, 3 and 10: what comes after the second was made later"
[params.looked]
value = 3
unit = "steps"
doc = "Step at which rows were looked at again."
source = "arithmetic: looks are at the steps 0, 3 and 10"
[params.gradients]
value = 5
unit = "looks"
doc = "Looks at a gradient that is zero."
source = "convention: of this project, fewer may be the beginning"
[needs]
tables = ["tensors"]
columns = ["tensors.distinct_rows"]
steps = 5
[doc]
what = "The rows of a weight are all equal at the start and still equal after several updates that changed it. Or the gradient of such a weight is exactly zero in every step because of it."
why = "Units that begin alike and get the same gradient remain alike: the layer has the width of one unit."
not_this = "A head or a branch that starts at zero and leaves it with its first gradient, however late that comes. Embeddings, weights that do not train."
source = "Equality of rows at the start, at the steps 3 and 10, and then at 32, 64 and so on."
*/
WITH alike AS (
    SELECT p.*, t.rows, t.distinct_rows, t.distinct_rows_step AS looked
    FROM parameters p
    JOIN tensors t ON t.rank = p.rank AND t.tensor_id = p.tensor_id
    WHERE t.distinct_rows = 1 AND t.rows >= 2 AND t.optimizer_id IS NOT NULL
), moving AS (
    SELECT a.rank, a.tensor_id, 'while_updated' AS how_, NULL AS steps, min(u.step) AS first
    FROM alike a
    JOIN tensor_stats u ON u.rank = a.rank AND u.tensor_id = a.update_id
        AND u.step <= coalesce(a.looked, u.step) -- what moved only afterwards may have parted
    -- rows of NaN look alike too
    GROUP BY a.rank, a.tensor_id
    HAVING count(*) FILTER (u.sum_sq > 0 AND u.nan_count + u.inf_count = 0) >= 2 AND max(u.step) >= $looked
        -- of what was put in later nothing is known before it has been looked at again
        AND (max(a.looked) IS NOT NULL OR min(u.step) <= $late)
), stuck AS (
    SELECT a.rank, a.tensor_id, 'zero_gradient' AS how_, count(*) AS steps, min(g.step) AS first
    FROM alike a JOIN param_steps g ON g.rank = a.rank AND g.tensor_id = a.tensor_id
    GROUP BY a.rank, a.tensor_id
    HAVING count(*) >= $gradients
        AND NOT bool_or(g.missing OR g.frozen OR g.nonfinite_count > 0)
        AND max(g.sum_sq) = 0
)
SELECT a.rank,
    -- a layer that was put in later, as an adapter is, begins where it is first seen
    CASE WHEN h.first <= $late THEN 0 ELSE h.first END AS step, a.module, a.tensor, a.rows,
        a.distinct_rows AS value, h.how_, h.steps
FROM alike a
JOIN (SELECT * FROM moving UNION ALL SELECT * FROM stuck) h ON h.rank = a.rank AND h.tensor_id = a.tensor_id
ORDER BY a.rank, a.call_order, a.tensor
