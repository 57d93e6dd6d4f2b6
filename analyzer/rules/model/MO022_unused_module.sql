/*
code = "MO022"
name = "unused-module"
severity = "error"
phase = "forward"
signal = "call_order"
message = "{module} ({class_name}, {numel} parameters in the optimizer) was never called in {steps_} steps and its parameters never got a gradient."
fix = "Call it in forward, or remove it."
seeks = ["param_steps: missing", "modules: call_order IS NULL AND parent_id IS NOT NULL"]
explains = ["broken-graph", "frozen-by-zero-gradient"]
[params.numbers]
value = 3
doc = "Sizes that an output has without a choice of the data: those of a batch, of the last batch and of an evaluation."
source = "arithmetic: one size for a batch, one for the last batch and one for an evaluation"
[needs]
tables = ["modules", "tensors", "tensor_stats"]
kinds = ["gradient"]
steps = 5
[doc]
what = "No forward has called a module with parameters in the optimizer, and no gradient has reached it. This is a warning where the data choose among several such modules, as a gate does among experts."
why = "It does not train; with DistributedDataParallel it is an error."
not_this = "Weights that other code uses directly (they get gradients), frozen ones, modules that are called later. Parts inside an unused one or inside one that runs without gradients."
source = "Counting."
*/
WITH grads AS (
    SELECT p.rank, p.module_id, count(*) AS parameters, sum(p.numel) AS numel,
        bool_and(coalesce(q.missing, false)) AS missing
    FROM parameters p
    LEFT JOIN (SELECT rank, tensor_id, bool_and(missing) AS missing
        FROM param_steps
        GROUP BY rank, tensor_id) q ON q.rank = p.rank
        AND q.tensor_id = p.tensor_id
    WHERE p.optimizer_id IS NOT NULL AND p.requires_grad GROUP BY p.rank, p.module_id
), owners AS (
    SELECT t.rank, t.ancestor_id, sum(g.numel)::BIGINT AS numel, bool_and(g.missing) AS missing
    FROM module_tree t
    JOIN grads g ON g.rank = t.rank AND g.module_id = t.module_id
    GROUP BY t.rank, t.ancestor_id
), called AS (
    SELECT t.rank, t.ancestor_id, bool_or(m.call_order IS NOT NULL) AS called
    FROM module_tree t
    JOIN modules m ON m.rank = t.rank AND m.module_id = t.module_id
    GROUP BY t.rank, t.ancestor_id
), idle AS (
    SELECT m.rank, m.module_id, m.parent_id, m.module, m.class_name, o.numel
    FROM modules m
    JOIN owners o ON o.rank = m.rank AND o.ancestor_id = m.module_id
    JOIN called c ON c.rank = m.rank AND c.ancestor_id = m.module_id
    WHERE NOT c.called AND o.missing AND m.parent_id IS NOT NULL
      -- torch's own attention computes with the weights of its last layer, and never calls it
      AND m.class_name <> 'NonDynamicallyQuantizableLinear'
), sizes AS (
    -- in how many sizes the outputs of a module came
    SELECT t.rank, t.module_id, count(DISTINCT s.numel) AS numbers
    FROM tensors t
    JOIN tensor_stats s ON s.rank = t.rank AND s.tensor_id = t.tensor_id AND s.phase = 'forward'
    WHERE t.kind = 'activation' AND t.tensor_name LIKE '%:output0' AND t.rank IN (SELECT rank FROM idle)
    GROUP BY t.rank, t.module_id
), now_and_then AS (
    -- parts that got a gradient in some steps and none in others: the data choose among them and their likes
    SELECT DISTINCT m.rank, m.parent_id, m.class_name
    FROM modules m
    JOIN module_tree t ON t.rank = m.rank AND t.ancestor_id = m.module_id
    JOIN parameters p ON p.rank = t.rank AND p.module_id = t.module_id
    JOIN param_steps q ON q.rank = p.rank AND q.tensor_id = p.tensor_id
    WHERE m.parent_id IS NOT NULL AND m.rank IN (SELECT rank FROM idle)
    GROUP BY m.rank, m.module_id, m.parent_id, m.class_name, p.tensor_id
    HAVING bool_or(q.missing) AND bool_or(NOT q.missing)
    UNION
    -- or its likes are given now more rows and now fewer, while a module round them always puts out as many
    SELECT m.rank, m.parent_id, m.class_name
    FROM modules m JOIN sizes o ON o.rank = m.rank AND o.module_id = m.module_id AND o.numbers > $numbers
    WHERE EXISTS (FROM module_tree t
        JOIN sizes p ON p.rank = t.rank AND p.module_id = t.ancestor_id
        WHERE t.rank = m.rank AND t.module_id = m.module_id AND p.numbers = 1)
)
SELECT i.rank, 0 AS step, i.module, i.class_name, i.numel, i.numel AS value,
    (SELECT count(DISTINCT step) FROM steps s WHERE s.rank = i.rank) AS steps_,
    CASE WHEN EXISTS (FROM now_and_then n
        WHERE n.rank = i.rank
          AND n.parent_id = i.parent_id
          AND n.class_name = i.class_name) THEN 'warning' ELSE 'error' END AS severity
FROM idle i JOIN modules p ON p.rank = i.rank AND p.module_id = i.parent_id
WHERE NOT EXISTS (FROM idle o WHERE o.rank = i.rank AND o.module_id = i.parent_id)
  AND EXISTS (FROM module_tree t
      JOIN modules m ON m.rank = t.rank AND m.module_id = t.module_id
      WHERE t.rank = i.rank AND t.ancestor_id = i.parent_id AND m.call_order IS NOT NULL)
  AND NOT EXISTS (FROM module_modes q WHERE q.rank = i.rank AND q.module_id = i.module_id)
  -- where the module round it ran without gradients only, code of it may use these weights and none would
  -- show
  AND NOT coalesce((SELECT bool_and(NOT q.grad)
      FROM module_modes q
      WHERE q.rank = i.rank AND q.module_id = i.parent_id),
      false)
  AND NOT EXISTS (FROM events e
      WHERE e.rank = i.rank
        AND (e.event = 'compiled-model'
            OR (e.event = 'recorder-fault' AND json_extract_string(e.detail, '$.part') = 'forward')))
  -- where no backward is called nothing has a gradient
  AND EXISTS (FROM param_steps q WHERE q.rank = i.rank AND NOT q.missing)
ORDER BY severity, i.rank, i.module_id
