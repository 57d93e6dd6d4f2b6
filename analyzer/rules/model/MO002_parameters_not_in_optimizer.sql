/*
code = "MO002"
name = "parameters-not-in-optimizer"
severity = "error"
phase = "optimizer"
signal = "update"
message = "{count} trainable parameters {place_} (first {tensor}) receive gradients in {steps} steps from step {step} on. No optimizer holds them and their values never change; {held} other parameters are held by one."
fix = "Create the optimizer when the model has its final modules: after replacing a head, wrapping, moving. Or call add_param_group for these parameters; set requires_grad=False where they are meant to stay."
seeks = [
    ["parameters: optimizer_id IS NULL AND model IS NOT NULL AND gradient_id IS NOT NULL", "events: event = 'leaf-not-held'"],
]
explains = ["shuffled-labels", "nothing-learnt", "loss-off-course"]
[say.place_]
root = "in module {model}"
named = "in module {module}"
outside = "outside all modules"
[params.steps]
value = 3
unit = "steps"
doc = "Steps with a gradient that must have changed nothing."
source = "convention: of this project, as many steps as show that it does not move"
[params.least]
value = 64
unit = "elements"
doc = "Elements of a weight by which a uniform distribution is told."
source = "arithmetic: of 64 uniform numbers the largest lies above 0.9 of the bound in 999 of 1000 draws"
[params.rounding]
value = 1e-6
doc = "Share by which two sums of squares of the same values may differ: the order of adding is not the same everywhere."
source = "arithmetic: some sixteen roundings of float32, 2^-24"
[params.near_bound]
value = 0.9
unit = "of the bound"
doc = "Largest element over the bound of the uniform distribution."
source = "arithmetic: of 64 numbers the largest lies above 0.9 in 999 of 1000 draws"
[params.at_bound]
value = 1.0001
unit = "of the bound"
doc = "The same at most."
source = "convention: of this project, rounding of half precision"
[params.uniform]
value = 3
doc = "What the variance of a uniform distribution is divided by."
source = "arithmetic: a number within (-a, a) has the variance a^2 / 3"
[params.spread_low]
value = 0.9
unit = "of the bound"
doc = "Spread over that of the distribution, at least."
source = "convention: of this project, scatter of 64 numbers"
[params.spread_high]
value = 1.1
unit = "of the bound"
doc = "The same at most."
source = "convention: of this project, scatter of 64 numbers"
[params.near]
value = 0.5
unit = "of its size"
doc = "Distance of a model's weights from another's when both were first seen, below which it began as a copy of it."
source = "arithmetic: weights that were drawn apart from each other are about the square root of two apart"
[needs]
tables = ["steps", "tensors"]
kinds = ["parameter", "gradient"]
[doc]
what = "Parameters with requires_grad and a non-zero gradient are in no parameter group, and their values stay the same. Other parameters of the same model, or of another model in training mode, are in one. Or what is held belongs to no model that is called, and a model with its initial weights trains beside it. Or a script without modules has tensors in the graph of each loss that no optimizer holds and that never change. Or an optimizer steps although nothing it holds ever gets a gradient. Then it holds the same shapes, or no optimizer holds anything with a gradient."
why = "They look trainable and cost a backward pass, but never learn."
not_this = "Whole models that no optimizer holds, in eval mode or also run without gradients (teachers, critics, targets of attacks). Models that began as a copy of what trains (targets of Q networks), frozen parameters without gradients. It is a warning where all that is not held is before all that is held (a head trained on a backbone). That is often meant. It is an error if the backbone has its initial weights, which are useless. It is an error too if later weights in it were frozen by requires_grad. Likewise if it was frozen itself when the training began. It is a warning where only batch norms that always train in eval mode are left out."
source = "Counts and exact equality; torch's Linear and Conv draw weights uniformly within 1 / sqrt(fan in)."
*/
-- shared
WITH gone AS (
    -- steps of an optimizer that was let go of later: what it held is not known any more. One that steps to
    -- the end may hold what another holds too
    SELECT DISTINCT rank, step FROM steps
    WHERE stepped AND (rank, optimizer_id) NOT IN
        (SELECT (rank, optimizer_id) FROM parameters WHERE optimizer_id IS NOT NULL)
      AND (rank, optimizer_id) NOT IN (
        SELECT (rank, optimizer_id)
        FROM (SELECT rank, optimizer_id, max(step) AS last_, max(max(step)) OVER (PARTITION BY rank) AS end_
            FROM steps WHERE stepped GROUP BY rank, optimizer_id)
        WHERE last_ >= end_ - 1)
), trained AS (
    SELECT rank, tensor_id, count(*) AS steps, count(DISTINCT sum_sq) AS gradients, min(step) AS step,
        min(seq) AS seq
    FROM param_steps
    WHERE NOT missing AND sum_sq > 0 AND (rank, step) NOT IN (SELECT (rank, step) FROM gone)
    GROUP BY rank, tensor_id
), still AS (
    SELECT s.rank, s.tensor_id
    FROM tensor_stats s
    JOIN parameters p ON p.rank = s.rank AND p.tensor_id = s.tensor_id AND p.optimizer_id IS NULL
    GROUP BY s.rank, s.tensor_id
    HAVING count(*) >= $steps
        AND min(s.sum) = max(s.sum)
        AND max(s.sum_sq) - min(s.sum_sq) <= $rounding * max(s.sum_sq)
        AND min(s.min) = max(s.min)
        AND min(s.max) = max(s.max)
), out_ AS (
    SELECT p.*, t.steps, t.step AS first_step FROM parameters p
    JOIN trained t ON t.rank = p.rank AND t.tensor_id = p.tensor_id AND t.steps >= $steps
    JOIN still s ON s.rank = p.rank AND s.tensor_id = p.tensor_id
    -- a gradient left behind stays as it is: by what froze the parameter, or by a training that is over
    WHERE (t.gradients >= $steps
        OR p.requires_grad AND (t.gradients > 1 OR p.rank NOT IN (SELECT rank FROM gone)))
      AND p.optimizer_id IS NULL AND p.model IS NOT NULL
)
-- shared: as_made
-- weights as torch's layers draw them, uniform up to 1 / sqrt(fan in): nothing has ever trained them
SELECT o.rank, o.model FROM out_ o JOIN tensor_stats s ON s.rank = o.rank AND s.tensor_id = o.tensor_id
WHERE len(o.shape) >= 2
  AND list_product(o.shape) >= $least
  AND o.class_name IN ('Linear', 'Conv1d', 'Conv2d', 'Conv3d')
  AND o.tensor LIKE '%weight'
  AND greatest(abs(s.min), abs(s.max)) * sqrt(list_product(o.shape[2:])) BETWEEN $near_bound AND $at_bound
  AND sqrt($uniform * s.sum_sq / s.numel)
      * sqrt(list_product(o.shape[2:])) BETWEEN $spread_low AND $spread_high
  -- an optimizer held it when it was a model of its own: the stage before has trained it
  AND NOT EXISTS (FROM parameters q
      WHERE q.rank = o.rank
        AND q.shape = o.shape
        AND q.optimizer_id IS NOT NULL
        AND ends_with(o.tensor, '.' || q.tensor))
GROUP BY ALL
UNION
-- or all zeros, as the second factor of an adapter is made
SELECT o.rank, o.model FROM out_ o JOIN tensor_stats s ON s.rank = o.rank AND s.tensor_id = o.tensor_id
WHERE len(o.shape) >= 2 AND list_product(o.shape) >= $least AND s.sum_sq = 0 AND s.min = 0 AND s.max = 0
-- shared: held
WITH per_model AS (
    -- where all that is held is frozen, the optimizer was made before what trains was put in, as adapters are
    SELECT rank, model, coalesce(nullif(count(*) FILTER (requires_grad), 0), count(*)) AS held,
        coalesce(min(call_order) FILTER (requires_grad), min(call_order)) AS first_call
    FROM parameters p WHERE optimizer_id IS NOT NULL AND model IS NOT NULL
      AND EXISTS (SELECT 1
          FROM steps s
          WHERE s.rank = p.rank AND s.stepped AND s.optimizer_id IS NOT DISTINCT FROM p.optimizer_id)
      -- what was held under the name that it had as a model of its own, and is left out now
      AND NOT EXISTS (FROM out_ o
          WHERE o.rank = p.rank AND o.module_id = p.module_id AND ends_with(o.tensor, '.' || p.tensor))
    GROUP BY rank, model
), in_training_mode AS (
    -- whole models that were only ever called as something that trains: a fixed critic or teacher is in eval
    -- mode, or a
    -- forward without gradients has been seen of it
    SELECT m.rank, m.model FROM module_modes c JOIN modules m ON m.rank = c.rank AND m.module_id = c.module_id
    -- or without gradients in an evaluation, as what is held
    LEFT JOIN (SELECT p.rank, min(h.step) AS step
        FROM module_modes h JOIN parameters p ON p.rank = h.rank AND p.module_id = h.module_id
        WHERE p.optimizer_id IS NOT NULL AND NOT h.grad GROUP BY p.rank) e ON e.rank = m.rank
    GROUP BY m.rank, m.model
    HAVING bool_and(c.training AND c.grad OR NOT c.grad AND coalesce(c.step >= e.step, false))
        AND bool_or(c.grad)
), ungraded AS (
    -- optimizers that step although nothing that they hold has ever got a gradient
    SELECT p.rank, p.optimizer_id, count(*) AS held, list_sort(list(p.shape)) AS shapes
    FROM parameters p
    JOIN (SELECT rank, tensor_id, bool_and(missing) AS never
        FROM param_steps
        GROUP BY rank, tensor_id
        HAVING count(*) >= $steps) g
        ON g.rank = p.rank AND g.tensor_id = p.tensor_id
    WHERE p.optimizer_id IS NOT NULL
      AND EXISTS (FROM steps s
          WHERE s.rank = p.rank AND s.stepped AND s.optimizer_id IS NOT DISTINCT FROM p.optimizer_id)
    GROUP BY p.rank, p.optimizer_id HAVING bool_and(g.never)
), graded AS (
    SELECT DISTINCT p.rank
    FROM parameters p
    JOIN param_steps g ON g.rank = p.rank AND g.tensor_id = p.tensor_id
    WHERE p.optimizer_id IS NOT NULL AND NOT g.missing
), orphaned AS (
    -- what trains has the shapes of what such an optimizer holds, or nothing that any optimizer holds gets a
    -- gradient
    SELECT o.rank, o.model, u.held, NULL AS first_call
    FROM (SELECT rank, model, list_sort(list(shape)) AS shapes FROM out_ GROUP BY rank, model) o
    JOIN ungraded u ON u.rank = o.rank
    WHERE u.shapes = o.shapes OR o.rank NOT IN (FROM graded)
)
SELECT rank, model, max(held) AS held, any_value(first_call) AS first_call FROM (
    FROM per_model
    UNION ALL
    -- half of what trains is a model of its own, and was not handed over
    SELECT t.rank, t.model, sum(h.held) AS held, NULL AS first_call
    FROM in_training_mode t JOIN per_model h ON h.rank = t.rank
    WHERE (t.rank, t.model) NOT IN (SELECT (rank, model) FROM per_model)
      AND (h.rank, h.model) IN (SELECT (rank, model) FROM in_training_mode)
      -- the target of a Q network began as a copy, and is loaded again now and then: gradients that it gets
      -- by the way do nothing
      AND NOT EXISTS (
          SELECT arg_min(c.distance, c.step)
          FROM copies c JOIN modules m ON m.rank = c.rank AND m.module_id = c.module_id
          WHERE c.rank = t.rank AND m.model = t.model AND c.kind IN ('module', 'averaged')
          HAVING arg_min(c.distance, c.step) < $near)
    GROUP BY t.rank, t.model
    UNION ALL
    FROM orphaned
    UNION ALL
    -- no optimizer holds anything of a model that is called: what it holds is beside it, as weights of losses
    SELECT m.rank, m.model, any_value(b.held) AS held, NULL AS first_call
    FROM module_modes c JOIN modules m ON m.rank = c.rank AND m.module_id = c.module_id
    JOIN (SELECT rank, count(*) AS held FROM parameters
        WHERE optimizer_id IS NOT NULL AND model IS NULL GROUP BY rank) b ON b.rank = m.rank
    WHERE m.rank NOT IN (SELECT rank FROM per_model) AND (m.rank, m.model) IN (FROM as_made)
    GROUP BY m.rank, m.model
    HAVING bool_and(c.training OR NOT c.grad) AND bool_or(c.training AND c.grad)
) GROUP BY rank, model
-- detector: placed
WITH whole AS (
    -- enclosing modules in which every trainable parameter is left out
    SELECT t.rank, t.ancestor_id, t.ancestor, t.ancestor_depth
    FROM module_tree t JOIN parameters p ON p.rank = t.rank AND p.module_id = t.module_id
    LEFT JOIN out_ o ON o.rank = p.rank AND o.tensor_id = p.tensor_id
    WHERE p.requires_grad OR o.tensor_id IS NOT NULL
    GROUP BY ALL HAVING bool_and(o.tensor_id IS NOT NULL)
)
SELECT o.*, w.ancestor
FROM (SELECT *, count(*) OVER (PARTITION BY rank, model) AS total,
    max(call_order) OVER (PARTITION BY rank, model) AS last_call
    FROM out_) o
LEFT JOIN module_tree t ON t.rank = o.rank AND t.module_id = o.module_id
    AND EXISTS (SELECT 1 FROM whole w WHERE w.rank = t.rank AND w.ancestor_id = t.ancestor_id)
LEFT JOIN whole w ON w.rank = t.rank AND w.ancestor_id = t.ancestor_id
QUALIFY row_number() OVER (PARTITION BY o.rank, o.tensor_id
    ORDER BY w.ancestor_depth NULLS LAST, w.ancestor_id) = 1
-- together
WITH among_frozen AS (
    -- weights inside a model whose other weights were frozen by name: what still requires a gradient there
    -- was meant to train
    SELECT DISTINCT o.rank, o.model FROM out_ o JOIN parameters f ON f.rank = o.rank AND f.model = o.model
    WHERE NOT f.requires_grad
      AND len(f.shape) >= 2
      AND f.call_order > o.call_order
      AND (f.rank, f.tensor_id) NOT IN (SELECT (rank, tensor_id) FROM out_)
), unfrozen AS (
    -- they were described as frozen, before they got gradients: somebody has freed them to train them
    SELECT DISTINCT rank, model FROM out_ WHERE NOT requires_grad
), fixed_norms AS (
    -- batch norms that train with the statistics they were given, and nothing else: frozen whole, as
    -- detectors do
    SELECT o.rank, o.model FROM out_ o GROUP BY o.rank, o.model
    HAVING bool_and(o.class_name LIKE '%BatchNorm%'
        AND EXISTS (FROM module_modes c
            WHERE c.rank = o.rank AND c.module_id = o.module_id AND NOT c.training)
        AND NOT EXISTS (FROM module_modes c
            WHERE c.rank = o.rank AND c.module_id = o.module_id AND c.training AND c.grad))
)
FROM (
    SELECT p.rank, p.first_step AS step, coalesce(p.ancestor, p.module) AS module, p.tensor, 0.0 AS value,
        p.total AS count, p.steps, h.held,
        CASE WHEN coalesce(p.ancestor, p.module) <> '' THEN 'named' ELSE 'root' END AS place_, p.model,
        p.shape, p.dtype, p.class_name,
        CASE WHEN p.last_call < h.first_call
            AND (p.rank, p.model) NOT IN (SELECT (rank, model)
                FROM as_made UNION SELECT (rank, model)
                FROM among_frozen UNION SELECT (rank, model)
                FROM unfrozen)
            OR (p.rank, p.model) IN (FROM fixed_norms)
            THEN 'warning' ELSE 'error' END AS severity
    FROM placed p JOIN held h ON h.rank = p.rank AND h.model = p.model
    ORDER BY p.first_step, p.rank, p.call_order, p.tensor_id
)
UNION ALL BY NAME
-- a script without modules: tensors in the graph of its losses
SELECT rank, min((detail ->> '$.first')::BIGINT) AS step, arg_min(detail ->> '$.tensor', time_ns) AS tensor,
    0.0 AS value, count(*) AS count, max((detail ->> '$.steps')::BIGINT) AS steps, 'outside' AS place_,
    (SELECT count(*) FROM parameters p WHERE p.rank = e.rank AND p.optimizer_id IS NOT NULL) AS held,
    'error' AS severity
FROM events e
WHERE event = 'leaf-not-held'
GROUP BY rank
