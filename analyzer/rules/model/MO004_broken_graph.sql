/*
code = "MO004"
name = "broken-graph"
severity = "error"
phase = "backward"
signal = "gradient"
message = "From step {step} on no gradient reaches {count} optimized parameters up to module {place_} (last cut off: {tensor}), for {steps} steps. Yet the module is called and {beside_}. The graph is cut {where_}."
fix = "Call loss.backward() where none is made. Else look behind module {place_} for what leaves the graph. Usual causes are detach(), .data, .item(), no_grad(), argmax or rounding, numpy, and a new tensor made from the values. Remove it or use a differentiable form."
seeks = [
    [
        "param_steps: NOT frozen AND coalesce(missing OR sum_sq = 0 AND nonfinite_count = 0, true)",
        "exits: phase = 'backward' AND step IS NOT NULL AND exception_message IS NOT NULL",
    ],
]
explains = ["parameters-not-in-optimizer", "divergence", "vanishing-gradients", "dead-relu", "python-exception"]
[say.place_]
root = "the root"
named = "{module}"
[say.beside_]
backward_is_refused = "backward is refused"
a_bare_parameter_learns = "a parameter outside of all modules does get gradients"
the_optimizer_steps = "the optimizer steps"
backward_runs = "backward runs"
earlier_modules_learn = "modules before it do get gradients"
later_modules_learn = "modules after it do get gradients"
[say.where_]
inside_the_model = "inside the model: what it gives out carries no graph"
round_the_forward = "round the forward, which ran without gradients"
backward_never_called = "at the loss: backward was never called"
weights_replaced = "at the weights themselves: the modules ran with others in their place"
behind_the_model = "between the model and the loss"
at_the_parameters = "at these parameters, or they are not used"
behind_its_output = "behind its output"
detached_in_forward = "behind its output: {cut_text} in {cut_place}"
inside_or_before = "inside or before it: its output carries no graph"
[params.steps]
value = 3
unit = "steps"
doc = "Steps without a gradient, to the end of the run."
source = "convention: of this project, as many as a phase of a schedule has at least"
[params.gap]
value = 2
unit = "times"
doc = "The stretch must be longer than this many times the longest earlier stretch without a gradient."
source = "own history"
[params.long]
value = 4
unit = "times"
doc = "Steps, in steps of the least, where less is known."
source = "convention: of this project, four times"
[params.half]
value = 0.5
unit = "of the steps"
doc = "Share of the steps in which others learn."
source = "arithmetic: a majority is more than a half"
[params.rounding]
value = 1e-6
unit = "relative"
doc = "Share by which two sums of squares of the same values may differ."
source = "arithmetic: some sixteen roundings of float32, 2^-24"
[needs]
tables = ["steps", "modules"]
kinds = ["gradient", "activation"]
or_raised = ["no-grad-fn"]
[doc]
what = "From some step to the end, parameters that an optimizer holds and that require gradients get none. A gradient is None, or exactly zero and no gradient arrives at the module. The module runs, and later modules of the same optimizer, of this or another model, get gradients. Or nothing that an optimizer holds gets a gradient. Yet a backward of its own runs before each of its steps. Or no module that it holds gets one, while a parameter outside of all modules does. Or torch refuses backward because the loss has no graph, although weights of the model require gradients."
why = "Half of the model silently stops learning; the loss often goes on falling."
not_this = "Frozen parameters (requires_grad False or a learning rate of exactly zero), modules that were not called. Heads whose output the loss does not use (a warning where they never got any, unless a forward detaches it). Optimizers that step in turns, gradients that are absent only now and then. A weight of the model itself whose gradient is there and zero while modules below it get theirs (frozen-by-zero-gradient). A parameter that never had one in a module through which others get theirs may be unused: a warning."
source = "Counts and graph order."
*/
-- shared
WITH held AS (
    SELECT p.*
    FROM parameters p
    WHERE p.gradient_id IS NOT NULL AND p.call_order IS NOT NULL
      -- which optimizer holds what is known from its first step on; some runs end before
      AND (p.optimizer_id IS NOT NULL
          OR NOT EXISTS (FROM parameters o WHERE o.rank = p.rank AND o.optimizer_id IS NOT NULL))
), seen AS MATERIALIZED (
    SELECT h.rank, h.tensor_id, h.module_id, h.model, h.optimizer_id, h.call_order, g.step,
        g.missing OR (g.sum_sq = 0 AND g.nonfinite_count = 0) AS absent, g.missing
    FROM held h
    JOIN param_steps g ON g.rank = h.rank AND g.tensor_id = h.tensor_id AND NOT g.frozen
    JOIN optimizer_series s ON s.rank = h.rank
        AND s.step = g.step
        AND s.optimizer_id = h.optimizer_id
        AND s.stepped
), last_seen AS (
    SELECT rank, tensor_id, max(step) FILTER (NOT absent) AS last_present FROM seen GROUP BY rank, tensor_id
), tail AS MATERIALIZED (
    SELECT s.rank, s.tensor_id, any_value(s.module_id) AS module_id, any_value(s.model) AS model,
        any_value(s.optimizer_id) AS optimizer_id,
        any_value(s.call_order) AS call_order, min(s.step) AS step, max(s.step) AS last_step,
            count(*) AS steps,
        bool_and(s.missing) AS missing, l.last_present
    FROM seen s JOIN last_seen l USING (rank, tensor_id)
    WHERE s.step > coalesce(l.last_present, -1)
    GROUP BY s.rank, s.tensor_id, l.last_present
    HAVING count(*) >= $steps
)
-- shared: moved
-- modules whose parameters do not keep their values: without a gradient they are a momentum copy
SELECT DISTINCT t.rank, t.module_id
FROM tensor_stats s
JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id AND t.kind = 'parameter'
GROUP BY t.rank, t.module_id, t.tensor_id
HAVING min(s.sum) <> max(s.sum) OR max(s.sum_sq) - min(s.sum_sq) > $rounding * max(s.sum_sq)
-- shared: without_grad
-- modules in training mode that never ran with gradients
SELECT c.rank, c.module_id
FROM module_modes c
GROUP BY c.rank, c.module_id
HAVING NOT bool_or(c.grad) AND bool_and(c.training)
EXCEPT
FROM moved
-- shared: cut
WITH earlier_gap AS (
    SELECT rank, tensor_id, max(gap) AS gap FROM (
        SELECT s.rank, s.tensor_id, s.island, count(*) AS gap FROM (
            SELECT rank, tensor_id, absent, step,
                count(CASE WHEN NOT absent THEN 1 END) OVER (PARTITION BY rank, tensor_id
                    ORDER BY step) AS island
            FROM seen
            WHERE (rank, tensor_id) IN (SELECT (rank, tensor_id) FROM tail)) s
        JOIN last_seen l USING (rank, tensor_id)
        WHERE s.absent AND s.step < l.last_present GROUP BY s.rank, s.tensor_id, s.island)
    GROUP BY rank, tensor_id
), called AS (
    -- per module and step: did it run in a training forward, was its output tracked, did a gradient come back
    -- to it
    SELECT t.rank, t.module_id, s.step, bool_or(t.kind = 'activation') AS ran,
        bool_or(t.kind = 'activation' AND coalesce(s.requires_grad, true)) AS tracked,
            bool_or(t.kind = 'activation_gradient') AS returned
    FROM tensor_stats s JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id
    WHERE t.kind IN ('activation', 'activation_gradient')
      AND s.phase <> 'eval'
      AND t.tensor_name NOT LIKE '%:input%'
      AND (t.rank, t.module_id) IN (SELECT (rank, module_id) FROM tail)
    GROUP BY t.rank, t.module_id, s.step
), untracked AS (
    -- steps in which a later module was fed a floating-point tensor without a graph by code, not by a
    -- recorded module:
    -- modules that run under no_grad leave no activation of their own
    SELECT t.rank, m.model, s.step, max(m.call_order) AS deepest
    FROM tensor_stats s
    JOIN tensors t ON t.rank = s.rank
        AND t.tensor_id = s.tensor_id
        AND t.kind = 'activation'
        AND t.dtype LIKE '%float%'
        AND t.tensor_name LIKE '%:input0'
    JOIN modules m ON m.rank = t.rank AND m.module_id = t.module_id
    WHERE s.phase = 'forward' AND s.requires_grad = false AND EXISTS (SELECT 1 FROM tail)
    GROUP BY t.rank, m.model, s.step
), ungraded AS (
    SELECT DISTINCT rank, module_id FROM module_modes WHERE NOT grad
), standing AS (
    -- a group whose rate is exactly zero loses nothing by a cut, which is how layers are left behind one
    -- after the other
    SELECT rank, optimizer_id, group_id, max(step) FILTER (lr > 0 OR lr IS NULL) AS moved
    FROM param_groups
    GROUP BY ALL
)
SELECT t.rank, t.tensor_id, t.module_id, t.model, t.optimizer_id, t.call_order, t.step, t.steps,
    t.last_present, bool_or(coalesce(c.tracked, false)) AS tracked,
    w.module_id IS NOT NULL AS without_grad, bool_and(s.missing)
        AND NOT bool_or(coalesce(c.returned, false)) AS nothing, bool_and(s.missing) AS none_at_all
FROM tail t
JOIN seen s ON s.rank = t.rank AND s.tensor_id = t.tensor_id AND s.step >= t.step
LEFT JOIN called c ON c.rank = t.rank AND c.module_id = t.module_id AND c.step = s.step
LEFT JOIN untracked u ON u.rank = t.rank
    AND u.model = t.model
    AND u.step = s.step
    AND (t.rank, t.module_id) IN (SELECT (rank, module_id) FROM ungraded)
LEFT JOIN without_grad w ON w.rank = t.rank AND w.module_id = t.module_id AND t.last_present IS NULL
LEFT JOIN earlier_gap e ON e.rank = t.rank AND e.tensor_id = t.tensor_id
LEFT JOIN step_detail d ON d.rank = t.rank AND d.step = s.step
WHERE t.steps > $gap * coalesce(e.gap, 0)
  AND NOT EXISTS (SELECT 1
      FROM held h
      JOIN standing g ON g.rank = h.rank AND g.optimizer_id = h.optimizer_id AND g.group_id = h.group_id
    WHERE h.rank = t.rank AND h.tensor_id = t.tensor_id AND g.moved < t.step)
GROUP BY ALL
-- steps in which activations or their gradients were left out cannot speak against it
HAVING bool_and(coalesce(c.ran, false)
    OR w.module_id IS NOT NULL
    OR coalesce(u.deepest > t.call_order, false)
    OR list_contains(d.left_out, 'activations'))
    AND bool_or(coalesce(c.ran, false)
        OR w.module_id IS NOT NULL
        OR coalesce(u.deepest > t.call_order, false))
    AND bool_and(s.missing
        OR NOT coalesce(c.returned, NOT coalesce(c.ran, false))
        AND NOT coalesce(list_contains(d.left_out, 'activation_gradients'), false))
-- shared: detached
-- modules whose output the forward of a module round them detaches, as its source says
SELECT t.rank, t.module_id, any_value(e.detail ->> '$.text') AS text,
    any_value(e.detail ->> '$.place') AS place
FROM events e
JOIN module_tree t ON t.rank = e.rank AND t.ancestor_id = e.module_id
WHERE e.event = 'part-detached' AND (t.rank, t.module_id) NOT IN (FROM moved)
GROUP BY t.rank, t.module_id
-- shared: alive
-- parameters of the same optimizer that got a gradient in the very last steps
SELECT s.rank, s.tensor_id, s.module_id, s.model, s.optimizer_id, s.call_order, s.step
FROM seen s
WHERE NOT s.absent
-- detector: later_modules_learn
WITH gone AS (
    -- a model of its own that runs with a graph, and of which nothing gets a gradient any more: an encoder
    -- before a decoder
    SELECT c.rank, c.model, c.optimizer_id, c.step FROM cut c
    WHERE NOT EXISTS (SELECT 1 FROM alive a WHERE a.rank = c.rank AND a.model = c.model AND a.step >= c.step)
    GROUP BY ALL HAVING bool_and(c.tracked AND c.nothing)
)
SELECT c.*, false AS whole_cut,
    -- gradients do come back through the module: what never got one is a matter of these parameters alone
    c.last_present IS NULL AND EXISTS (
        SELECT 1 FROM alive a JOIN module_tree t ON t.rank = a.rank AND t.module_id = a.module_id
        WHERE t.rank = c.rank AND t.ancestor_id = c.module_id AND a.step >= c.step) AS alone
FROM cut c
WHERE EXISTS (
    SELECT 1
    FROM alive a
    WHERE a.rank = c.rank
      AND a.optimizer_id = c.optimizer_id
      AND (a.call_order > c.call_order OR c.without_grad)
      AND a.step >= c.step
      AND (a.model = c.model
          OR (c.rank, c.model, c.optimizer_id, c.step) IN (SELECT (rank, model, optimizer_id, step)
              FROM gone))
          GROUP BY a.tensor_id
          HAVING count(*) >= $steps AND count(*) >= $half * c.steps)
  -- a zero that backward left, in a module below which others do get gradients: no cut, a loss that is
  -- flat there
  AND (c.none_at_all
      OR c.last_present IS NULL
      OR NOT EXISTS (SELECT 1
          FROM alive a
          JOIN module_tree t ON t.rank = a.rank AND t.module_id = a.module_id
      WHERE t.rank = c.rank
        AND t.ancestor_id = c.module_id
        AND a.module_id <> c.module_id
        AND a.step >= c.step))
  AND (c.last_present IS NOT NULL OR NOT c.tracked
    OR (c.rank, c.module_id) IN (SELECT (rank, module_id) FROM detached)
    OR NOT EXISTS (SELECT 1
        FROM alive a
        WHERE a.rank = c.rank AND a.model = c.model AND a.call_order < c.call_order AND a.step >= c.step
        -- a module that holds this one begins before it; what it uses its own parameters for may come
        -- after
        AND NOT EXISTS (SELECT 1
            FROM module_tree t
            WHERE t.rank = c.rank AND t.module_id = c.module_id AND t.ancestor_id = a.module_id)))
-- detector: head_never_learnt_from
-- a head whose output was never learnt from: left out of the loss, or detached
SELECT c.*, false AS whole_cut, true AS alone FROM cut c
WHERE c.last_present IS NULL AND c.tracked AND c.nothing AND c.steps >= $long * $steps
  AND NOT EXISTS (SELECT 1
      FROM alive a
      WHERE a.rank = c.rank AND a.model = c.model AND a.call_order > c.call_order AND a.step >= c.step)
  AND EXISTS (SELECT 1
      FROM alive a
      WHERE a.rank = c.rank
        AND a.optimizer_id = c.optimizer_id
        AND a.model = c.model
        AND a.call_order < c.call_order
        AND a.step >= c.step)
-- detector: branch_left_at_its_output
WITH towers AS (
    -- the first module with weights of a branch takes what has no graph: indices, or the batch
    SELECT c.rank, c.model, c.optimizer_id, c.step
    FROM (SELECT rank, model, optimizer_id, step, arg_min(module_id, call_order) AS module_id
        FROM cut
        WHERE last_present IS NOT NULL AND nothing AND tracked
        GROUP BY ALL) c
    JOIN modules m ON m.rank = c.rank AND m.module_id = c.module_id
    LEFT JOIN tensors t ON t.rank = c.rank
        AND t.module_id = c.module_id
        AND t.kind = 'activation'
        AND t.dtype LIKE '%float%'
        AND t.tensor_name LIKE '%:input0'
    LEFT JOIN tensor_stats s ON s.rank = t.rank AND s.tensor_id = t.tensor_id AND s.phase = 'forward'
    GROUP BY c.rank, c.model, c.optimizer_id, c.step, m.class_name
    HAVING m.class_name LIKE 'Embedding%' OR bool_and(s.requires_grad = false)
)
-- a branch that ran last and was learnt from, until something was done to its output: one that is fed by
-- the batch itself is a
-- tower beside the others, one on top of other modules may be a term of the loss that was dropped
SELECT c.*, false AS whole_cut,
    (c.rank, c.model, c.optimizer_id, c.step) NOT IN (SELECT (rank, model, optimizer_id, step)
        FROM towers) AS alone
FROM cut c
WHERE c.last_present IS NOT NULL AND c.tracked AND c.nothing AND c.steps >= $long * $steps
  AND NOT EXISTS (SELECT 1
      FROM alive a
      WHERE a.rank = c.rank AND a.model = c.model AND a.call_order > c.call_order AND a.step >= c.step)
  AND EXISTS (SELECT 1
      FROM alive a
      WHERE a.rank = c.rank
        AND a.optimizer_id = c.optimizer_id
        AND a.model = c.model
        AND a.call_order < c.call_order
        AND a.step >= c.step
      GROUP BY a.tensor_id HAVING count(*) >= $half * c.steps)
-- detector: nothing_learns
WITH backward_only AS (
    -- backward ran and the optimizer stepped, but not one of its parameters has a gradient: the cut lies
    -- behind the model
    SELECT c.rank, c.optimizer_id, c.step, false AS bypassed
    FROM cut c
    JOIN optimizer_series s ON s.rank = c.rank AND s.step >= c.step AND s.stepped
    WHERE c.nothing AND NOT EXISTS (SELECT 1 FROM alive a WHERE a.rank = c.rank AND a.step >= c.step)
    GROUP BY c.rank, c.optimizer_id, c.step
    HAVING bool_and(s.optimizers <= 1 AND s.microbatches > 0 AND coalesce(s.grad_norm, 0) = 0)
    UNION
    -- one of several optimizers goes on stepping behind a backward of its own that brings it nothing, though
    -- its modules run
    -- with a graph; another one gets its gradients
    SELECT c.rank, c.optimizer_id, c.step, false AS bypassed FROM cut c
    JOIN optimizer_series s ON s.rank = c.rank
        AND s.optimizer_id = c.optimizer_id
        AND s.step >= c.step
        AND s.stepped
    WHERE c.nothing
      AND c.tracked
      AND c.steps >= (CASE WHEN c.last_present IS NULL THEN $long ELSE 1 END) * $steps
      AND NOT EXISTS (SELECT 1
          FROM alive a
          WHERE a.rank = c.rank AND a.optimizer_id = c.optimizer_id AND a.step >= c.step)
      AND EXISTS (SELECT 1
          FROM alive a
          WHERE a.rank = c.rank AND a.optimizer_id <> c.optimizer_id AND a.step >= c.step)
    GROUP BY c.rank, c.optimizer_id, c.step
    HAVING bool_and(s.optimizers > 1 AND s.microbatches > 0 AND coalesce(s.grad_norm, 0) = 0)
    UNION
    -- gradients come back through the modules, and yet not one parameter gets any, none was cleared and no
    -- weight moves: the
    -- modules ran with other weights in the place of their own (functional_call, an inner loop that was cut
    -- off)
    SELECT c.rank, c.optimizer_id, c.step, true AS bypassed
    FROM cut c
    JOIN optimizer_series s ON s.rank = c.rank AND s.step >= c.step AND s.stepped
    JOIN steps k ON k.rank = s.rank AND k.step = s.step
    WHERE c.none_at_all
      AND NOT c.nothing
      AND NOT EXISTS (SELECT 1 FROM alive a WHERE a.rank = c.rank AND a.step >= c.step)
    GROUP BY c.rank, c.optimizer_id, c.step
    HAVING bool_and(s.optimizers <= 1
        AND s.microbatches > 0
        AND coalesce(s.grad_norm, 0) = 0
        AND coalesce(s.update_norm, 0) = 0
        AND NOT coalesce(regexp_matches(k.calls, 'b[^bs]*z[^bs]*s'), false))
       AND max(s.update_norm) IS NOT NULL
)
SELECT c.*, true AS whole_cut, false AS alone, b.bypassed, false AS unasked
FROM cut c
JOIN backward_only b USING (rank, optimizer_id, step)
-- detector: only_bare_parameters_learn
WITH bare AS (
    -- what learns beside it belongs to no module that is called: a normalising constant, a temperature
    SELECT p.rank, p.optimizer_id, g.step
    FROM parameters p
    JOIN param_steps g ON g.rank = p.rank AND g.tensor_id = p.tensor_id
        AND NOT g.frozen AND NOT g.missing AND g.sum_sq > 0
    WHERE p.optimizer_id IS NOT NULL AND p.call_order IS NULL
    GROUP BY ALL
), silent AS (
    -- all that the optimizer holds of called modules: it runs for training, and nothing comes back to it
    SELECT h.rank, h.optimizer_id, max(c.step) AS step
    FROM held h
    LEFT JOIN cut c ON c.rank = h.rank AND c.tensor_id = h.tensor_id
    LEFT JOIN (SELECT DISTINCT rank, module_id FROM module_modes WHERE training AND grad) m
        ON m.rank = h.rank AND m.module_id = h.module_id
    GROUP BY ALL
    HAVING bool_and(coalesce(c.tracked AND c.nothing AND m.module_id IS NOT NULL, false))
       AND min(c.steps) >= 2 * $steps
)
SELECT c.*, true AS whole_cut, false AS alone, true AS bare
FROM cut c
JOIN silent s USING (rank, optimizer_id)
WHERE (SELECT count(*)
    FROM bare b
    WHERE b.rank = c.rank AND b.optimizer_id = c.optimizer_id AND b.step >= s.step) * 2 >= c.steps
-- detector: backward_was_never_called
-- forwards with a graph and steps of the optimizer, and not one backward in the whole run
SELECT c.*, true AS whole_cut, false AS alone, false AS bypassed, true AS unasked
FROM cut c
WHERE c.none_at_all AND c.tracked AND c.last_present IS NULL AND c.steps >= $long * $steps
  AND NOT EXISTS (FROM optimizer_series s
      WHERE s.rank = c.rank AND (s.microbatches > 0 OR s.update_norm > 0))
-- detector: refused
-- torch has refused backward, and weights of modules that ran in this step do require gradients
WITH refusal AS (
    SELECT coalesce(e.rank, 0) AS rank, e.step
    FROM exits e
    JOIN known_exceptions k ON k.known = 'no-grad-fn' AND regexp_matches(e.exception_message, k.pattern)
    WHERE e.phase = 'backward' AND e.step IS NOT NULL
), measured AS (
    SELECT r.rank, r.step, t.module_id, bool_or(s.requires_grad) AS tracked
    FROM refusal r
    JOIN tensor_stats s ON s.rank = r.rank AND s.step = r.step AND s.phase = 'forward'
    JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id
        AND t.kind = 'activation' AND t.tensor_name LIKE '%:output%'
    WHERE s.requires_grad IS NOT NULL
    GROUP BY r.rank, r.step, t.module_id
), outputs AS (
    FROM measured
    UNION ALL
    -- a forward under no_grad leaves no outputs, but its mode
    SELECT r.rank, r.step, m.module_id, false
    FROM refusal r
    JOIN module_modes m ON m.rank = r.rank AND m.step <= r.step
    WHERE r.rank NOT IN (SELECT rank FROM measured)
    GROUP BY r.rank, r.step, m.module_id
    HAVING arg_max(m.grad, (m.step, m.microbatch, m.seq)) = false
)
SELECT h.rank, h.tensor_id, h.module_id, h.model, h.optimizer_id, h.call_order, o.step, 1 AS steps,
    NULL::BIGINT AS last_present, o.tracked, true AS whole_cut, false AS alone, true AS refused,
    -- the outermost module that ran: what it gives out has lost the graph that is there inside
    bool_or(o.tracked) OVER (PARTITION BY h.rank) AS inside, first_value(o.tracked) OVER (PARTITION BY h.rank
        ORDER BY h.call_order DESC ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
        AND coalesce((SELECT arg_min(x.tracked, m.call_order)
            FROM outputs x JOIN modules m ON m.rank = x.rank AND m.module_id = x.module_id
            WHERE x.rank = h.rank AND m.model IS NOT DISTINCT FROM h.model), true) AS outside
FROM held h
JOIN outputs o ON o.rank = h.rank AND o.module_id = h.module_id
WHERE h.requires_grad
  -- a block that was checkpointed without an input of which a gradient is asked has a name of its own
  AND h.rank NOT IN (SELECT rank FROM probes WHERE probe = 'checkpointed_without_graph')
-- together
WITH whole AS (
    SELECT t.rank, t.ancestor_id, t.ancestor, t.ancestor_depth, max(c.step) AS step
    FROM module_tree t JOIN held h ON h.rank = t.rank AND h.module_id = t.module_id
    LEFT JOIN found c ON c.rank = h.rank AND c.tensor_id = h.tensor_id
    GROUP BY ALL HAVING bool_and(c.tensor_id IS NOT NULL)
), placed AS (
    SELECT c.*, w.ancestor
    FROM (SELECT *, count(*) OVER (PARTITION BY rank, model, step) AS count FROM found) c
    JOIN module_tree t ON t.rank = c.rank AND t.module_id = c.module_id
    LEFT JOIN whole w ON w.rank = t.rank AND w.ancestor_id = t.ancestor_id AND w.step <= c.step
    QUALIFY row_number() OVER (PARTITION BY c.rank, c.tensor_id
        ORDER BY w.ancestor_depth NULLS LAST, w.ancestor_id) = 1
)
SELECT p.rank, p.step, coalesce(p.ancestor, h.module) AS module, h.tensor, NULL::DOUBLE AS value, p.count,
    p.steps,
    CASE WHEN coalesce(p.ancestor, h.module) <> '' THEN 'named' ELSE 'root' END AS place_, h.class_name,
    h.shape, p.last_present,
    CASE WHEN p.alone THEN 'warning' ELSE 'error' END AS severity,
    CASE WHEN p.refused THEN 'backward_is_refused'
        WHEN p.bare THEN 'a_bare_parameter_learns'
        WHEN p.unasked THEN 'the_optimizer_steps'
        WHEN p.whole_cut THEN 'backward_runs'
        WHEN (p.alone
            OR EXISTS (SELECT 1
                FROM alive a
                WHERE a.rank = p.rank
                  AND a.model = p.model
                  AND a.call_order < p.call_order
                  AND a.step >= p.step))
            AND NOT EXISTS (SELECT 1
                FROM alive a
                WHERE a.rank = p.rank
                  AND a.model = p.model
                  AND a.call_order > p.call_order
                  AND a.step >= p.step) THEN 'earlier_modules_learn'
        ELSE 'later_modules_learn' END AS beside_,
    CASE
        WHEN p.refused AND p.inside AND NOT p.outside THEN 'inside_the_model'
        WHEN p.refused AND NOT p.inside THEN 'round_the_forward'
        WHEN p.unasked THEN 'backward_never_called'
        WHEN p.bypassed THEN 'weights_replaced'
        WHEN p.whole_cut THEN 'behind_the_model'
        WHEN p.alone THEN 'at_the_parameters'
        WHEN p.tracked AND d.text IS NOT NULL THEN 'detached_in_forward'
        WHEN p.tracked THEN 'behind_its_output'
        ELSE 'inside_or_before' END AS where_, d.text AS cut_text, d.place AS cut_place
FROM placed p JOIN held h ON h.rank = p.rank AND h.tensor_id = p.tensor_id
LEFT JOIN detached d ON d.rank = p.rank AND d.module_id = p.module_id
-- the last module that is cut off is next to the cut
ORDER BY severity, p.step, p.rank, p.call_order DESC, p.tensor_id
