/*
code = "ME004"
name = "tensor-list-growth"
severity = "error"
phase = "forward"
signal = "tensors_alive"
message = "From step {step} on {what_} stay alive, one more after the other: {value} at the end{held_}.{grows_}{holder_}"
fix = "{remedy_}"
seeks = [
    [
        "steps: output_graphs_alive >= $least OR outputs_alive >= $detached OR forward_graphs_alive >= $least",
        "probes: probe = 'kept_outputs'",
        "live_tensors: with_graph >= $least",
        "memory_owners: element = 'tensor' AND NOT coalesce(with_graph, false)",
    ],
]
explains = ["host-memory-leak", "memory-short", "throughput-drift"]
[say.what_]
outputs_with_graphs = "the outputs of the model with their autograd graphs"
outputs_without_graphs = "the outputs of the model (without graphs)"
module_outputs_with_graphs = "the outputs of module {module} ({class_name}) with their autograd graphs"
root_outputs_with_graphs = "the outputs of module {class_name} with their autograd graphs"
tensors_with_graphs = "tensors of shape {shape} with their autograd graphs"
results_with_graphs = "results of the forward with their autograd graphs"
tensors_without_graphs = "tensors of shape {shape}"
rows_of_a_tensor = "the rows of a tensor, by now of shape {shape}"
[say.held_]
in_bytes = ", {bytes:bytes}"
[say.grows_]
each_step = " They take {bytes_per_step:bytes} more each step."
[say.holder_]
holds_them = " What holds them is {holder}."
cycle = " torch has warned of it: backward(create_graph=True) makes a cycle of a leaf, its gradient and the graph of that gradient, and nothing lets go of it."
[say.remedy_]
find_the_list = "Find the list, dictionary or attribute to which they are added. Add .detach().cpu() or the number instead, and empty it when it has been used."
break_the_cycle = "Take the gradient with torch.autograd.grad(…, create_graph=True), which writes to no .grad. Or set the .grad of every leaf to None after its use, that of the inputs too."
[params.least]
value = 8
unit = "tensors"
doc = "Tensors with a graph that must have been kept."
source = "convention: of this project, fewer may be kept on purpose"
[params.detached]
value = 16
unit = "tensors"
doc = "Outputs without a graph that must have been kept, and none let go: then it is advice."
source = "convention: of this project, twice as many as with a graph: outputs are kept for metrics"
[params.large]
value = 33554432
unit = "bytes"
doc = "Memory in tensors without a graph that must have been gathered by one list, dictionary or tensor: then it is advice."
source = "convention: of this project, 32 MiB: less is not worth a word on any machine that trains"
[params.rate]
value = 0.5
unit = "tensors per step"
doc = "Growth to the end of the run."
source = "convention: of this project, one in two steps: what is kept once in an epoch grows more slowly"
[params.most]
value = 0.9
unit = "of the steps"
doc = "Share of the steps in which an output was kept."
source = "convention: of this project, one of ten may be let go"
[params.last_looks]
value = 4
unit = "looks"
doc = "Looks at the end of the run that show the growth."
source = "convention: of this project, fewer may be a plateau"
[params.rises]
value = 3
unit = "looks"
doc = "Looks at which more was kept than at the one before."
source = "convention: of this project, fewer may be a plateau"
[params.worth_a_word]
value = 1048576
unit = "bytes"
doc = "Size from which bytes are said."
source = "arithmetic: 1 MiB"
[params.worth_a_rate]
value = 1024
unit = "bytes per step"
doc = "Growth from which bytes are said."
source = "arithmetic: 1 kiB"
[needs]
tables = ["steps"]
columns = ["steps.outputs_alive"]
steps = 10
[doc]
what = "Outputs of a model, or tensors of one shape that an operator has made, outlive their step. Each step adds more of them, to the end of the run. Tensors without graphs are advice, unless torch has warned of the cycle that backward(create_graph=True) makes."
why = "Memory that is never released grows until the process dies. With its autograd graph each kept tensor holds the graph behind it too."
not_this = "A list that is emptied at the end of an epoch. A bounded history or replay buffer once it is full, losses kept as tensors (graph-retained-across-steps), optimizer state."
source = "Weak references to storages and graph nodes. A census of living tensors of each shape. Looks at what has become longer, once memory or kept graphs grow."
*/
-- shared
WITH counts AS (
    SELECT rank, step, max(output_graphs_alive) AS graphs, max(outputs_alive) AS alive,
        max(outputs_alive_bytes) AS bytes, max(epoch) AS epoch
    -- a step that an exception or the end of the script has broken off has let go of what the script held
    FROM steps WHERE outputs_alive IS NOT NULL AND completed GROUP BY rank, step
)
-- detector: outputs
WITH kept AS (
    SELECT rank, 'graphs' AS series, step, graphs AS n, bytes, epoch FROM counts
    UNION ALL SELECT rank, 'outputs', step, alive, bytes, epoch FROM counts
), ends AS (
    SELECT rank, series, arg_max(n, step) AS value, max(n) AS most, max(step) AS last,
        coalesce(max(step) FILTER (n = 0), min(step)) AS clean, arg_max(bytes, step) AS bytes,
        max(epoch) AS epoch
    FROM kept GROUP BY rank, series
), since AS (
    SELECT e.*,
        (SELECT min(k.epoch)
            FROM kept k
            WHERE k.rank = e.rank AND k.series = e.series AND k.step > e.clean) AS epoch_then,
        -- a list that is emptied now and then falls; what is kept once rises once
        c.falls, c.rises
    FROM ends e
    JOIN (SELECT rank, series, count(*) FILTER (n < was) AS falls, count(*) FILTER (n > was) AS rises
        FROM (SELECT rank, series, n, lag(n) OVER (PARTITION BY rank, series ORDER BY step) AS was FROM kept)
        GROUP BY rank, series) c USING (rank, series)
    WHERE e.value >= $rate * (e.last - e.clean)
      AND e.value > 2 * (SELECT coalesce(max(k.n), 0)
          FROM kept k
          WHERE k.rank = e.rank AND k.series = e.series AND k.step <= e.clean)
      AND e.value = e.most
)
SELECT rank, greatest(clean - 1, 0) AS step, 'error' AS severity, '' AS module,
    'outputs_with_graphs' AS what_, value, bytes
FROM since g
WHERE series = 'graphs' AND value >= $least AND rises >= $rises
  -- graphs of outputs that nothing holds: a state leads into them (graph-retained-across-steps)
  AND NOT (falls = 0 AND (SELECT coalesce(max(c.alive), 0) = 0 FROM counts c WHERE c.rank = g.rank)
      AND NOT EXISTS (FROM memory_growing m WHERE m.rank = g.rank AND m.with_graph AND m.steady))
UNION ALL
SELECT rank, greatest(clean - 1, 0), 'warning', '', 'outputs_without_graphs', value, bytes
FROM since s
WHERE series = 'outputs' AND value >= $detached AND value >= $most * (last - clean - 1)
  AND falls = 0 AND rises >= $rises
  AND (epoch IS NULL OR epoch > coalesce(epoch_then, epoch))
  AND NOT EXISTS (SELECT 1
      FROM since g
      WHERE g.rank = s.rank AND g.series = 'graphs' AND g.value >= $least AND g.rises >= $rises)
-- detector: outputs_of_modules
WITH last_steps AS (
    SELECT rank, max(step) AS last FROM counts GROUP BY rank
), looks AS (
    SELECT p.rank, p.module_id, p.step, p.value AS n, lag(p.value, 1, 0) OVER w AS before,
        lag(p.step) OVER w AS step_before,
        last_value(p.value) OVER (PARTITION BY p.rank, p.module_id
            ORDER BY p.step, p.seq ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS final
    FROM probes p
    WHERE p.probe = 'kept_outputs'
    WINDOW w AS (PARTITION BY p.rank, p.module_id ORDER BY p.step, p.seq)
), inner_ AS (
    -- outputs of one module: from the last fall on
    SELECT l.rank, l.module_id, min(l.step) AS first, max(l.step) AS last, any_value(l.final) AS value,
        arg_min(l.n, l.step) AS n_first, count(*) AS rises,
        max(l.step - l.step_before) AS gap
    FROM looks l
    WHERE l.step > (SELECT coalesce(max(b.step) FILTER (b.n < b.before), -1)
        FROM looks b
        WHERE b.rank = l.rank AND b.module_id = l.module_id)
      AND l.rank NOT IN (SELECT rank FROM outputs)
      AND l.rank NOT IN (SELECT rank FROM steps GROUP BY rank HAVING max(graphs_alive) >= $least)
    GROUP BY l.rank, l.module_id
    HAVING any_value(l.final) = max(l.n) AND count(*) >= $last_looks
      AND any_value(l.final) > 2 * (SELECT coalesce(max(b.before), 0)
          FROM looks b
          WHERE b.rank = l.rank AND b.module_id = l.module_id AND b.n < b.before)
)
SELECT i.rank, greatest(i.first - 2, 0) AS step, 'error' AS severity, m.module, m.class_name,
    CASE WHEN m.module = '' THEN 'root_outputs_with_graphs' ELSE 'module_outputs_with_graphs' END AS what_,
    i.value, NULL AS bytes
FROM inner_ i
JOIN modules m ON m.rank = i.rank AND m.module_id = i.module_id
JOIN last_steps e ON e.rank = i.rank
WHERE i.value >= $least AND e.last - i.last <= 2 * coalesce(i.gap, 1) + 2
-- detector: lists
WITH census AS (
    SELECT l.rank, l.shape, l.dtype, l.step, l.with_graph AS n, l.bytes, lag(l.with_graph) OVER w AS before,
        lag(l.step) OVER w AS step_before, a.last, a.first
    FROM live_tensors l
    JOIN (SELECT rank, max(step) AS last, min(step) AS first
        FROM live_tensors
        GROUP BY rank) a ON a.rank = l.rank
    WINDOW w AS (PARTITION BY l.rank, l.shape, l.dtype ORDER BY l.step)
), grown AS (
    SELECT c.rank, c.shape, c.dtype, max(c.step) AS last, arg_max(c.n, c.step) AS value,
        CASE WHEN min(c.step) = any_value(c.first) THEN arg_min(c.n, c.step) ELSE 0 END AS base,
        arg_max(c.bytes, c.step) AS bytes,
            arg_max((c.n - c.before) / (c.step - c.step_before), c.step) AS rate,
        count(*) FILTER (c.n > c.before) AS rises, count(*) FILTER (c.n < c.before) AS falls
    FROM census c GROUP BY c.rank, c.shape, c.dtype
    HAVING max(c.step) = any_value(c.last)
)
SELECT g.rank,
    greatest(g.last + 1 - round((g.value - greatest(g.base - 1, 0)) / g.rate)::BIGINT, 0) AS step,
    'error' AS severity,
    (SELECT arg_min(m.module, m.call_order)
        FROM tensors t
        JOIN modules m ON m.rank = t.rank AND m.module_id = t.module_id
        WHERE t.rank = g.rank
          AND t.kind = 'activation'
          AND t.shape = g.shape
          AND m.call_order IS NOT NULL) AS module,
    'tensors_with_graphs' AS what_, g.shape, g.value, g.bytes
FROM grown g
WHERE g.rate >= $rate
  AND g.value - g.base >= $least
  AND g.rises >= $rises
  AND g.falls <= 1
  AND len(g.shape) > 0
  AND g.rank NOT IN (SELECT rank FROM outputs WHERE severity = 'error')
    AND g.rank NOT IN (SELECT rank FROM outputs_of_modules)
  -- what losses of earlier steps hold is told by graphs_alive
  AND g.rank NOT IN (SELECT rank FROM steps GROUP BY rank HAVING max(graphs_alive) >= $least)
-- detector: inside
WITH beginnings AS (
    -- the first node of a forward: kept by whatever has been made from it
    SELECT rank, step, max(forward_graphs_alive) AS n, lag(n) OVER (PARTITION BY rank ORDER BY step) AS was
    FROM steps
    WHERE forward_graphs_alive IS NOT NULL AND completed
    GROUP BY rank, step
)
SELECT e.rank, greatest(e.clean - 1, 0) AS step, 'error' AS severity, NULL::VARCHAR AS module,
    'results_with_graphs' AS what_, e.value, NULL::BIGINT AS bytes
FROM (
    SELECT rank, arg_max(n, step) AS value, max(n) AS most, max(step) AS last,
        coalesce(max(step) FILTER (n = 0), min(step)) AS clean, count(*) FILTER (n > was) AS rises
    FROM beginnings
    GROUP BY rank
) e
WHERE e.value >= $least AND e.rises >= $rises AND e.value = e.most AND e.value >= $rate * (e.last - e.clean)
  AND e.value > 2 * (SELECT coalesce(max(b.n), 0)
      FROM beginnings b
      WHERE b.rank = e.rank AND b.step <= e.clean)
  AND e.rank NOT IN (SELECT rank FROM outputs WHERE severity = 'error')
    AND e.rank NOT IN (SELECT rank FROM outputs_of_modules)
    AND e.rank NOT IN (SELECT rank FROM lists)
  AND e.rank NOT IN (SELECT rank FROM steps GROUP BY rank HAVING max(graphs_alive) >= $least)
-- detector: gathered
SELECT g.rank, g.since_step AS step, 'warning' AS severity, NULL::VARCHAR AS module,
    CASE g.kind WHEN 'longer' THEN 'rows_of_a_tensor' ELSE 'tensors_without_graphs' END AS what_, g.shape,
    round(g.final_length)::BIGINT AS value, round(g.final_bytes)::BIGINT AS bytes, g.owner, g.bytes_per_step
FROM memory_gathered g
WHERE g.element = 'tensor' AND NOT g.with_graph AND g.rate >= $rate AND g.final_bytes >= $large
  AND g.rank NOT IN (SELECT rank FROM outputs) AND g.rank NOT IN (SELECT rank FROM outputs_of_modules)
QUALIFY row_number() OVER (PARTITION BY g.rank ORDER BY g.bytes_per_step DESC, g.holder) = 1
-- together
WITH named AS (
    SELECT f.* REPLACE (coalesce(f.owner, g.owner) AS owner,
        coalesce(f.bytes_per_step, g.bytes_per_step) AS bytes_per_step,
        coalesce(f.module, m.module) AS module)
    FROM found f
    LEFT JOIN (
        SELECT *
        FROM memory_growing
        WHERE element = 'tensor' AND steady
        QUALIFY row_number() OVER (PARTITION BY rank, with_graph
            ORDER BY bytes_per_step DESC, length DESC, holder) = 1
    ) g ON g.rank = f.rank AND g.with_graph = (f.severity = 'error') AND f.owner IS NULL
    LEFT JOIN modules m ON m.rank = f.rank AND m.module_id = g.module_id
)
SELECT f.rank, f.step, if(c.rank IS NULL, f.severity, 'error') AS severity, f.module, f.class_name, f.what_,
    f.shape, f.value, f.bytes,
    CASE WHEN f.bytes >= $worth_a_word THEN 'in_bytes' END AS held_,
    CASE WHEN f.bytes_per_step >= $worth_a_rate THEN 'each_step' END AS grows_, f.bytes_per_step,
    CASE WHEN c.rank IS NOT NULL THEN 'cycle' WHEN f.owner IS NOT NULL THEN 'holds_them' END AS holder_,
    f.owner AS holder, if(c.rank IS NULL, 'find_the_list', 'break_the_cycle') AS remedy_
FROM named f
LEFT JOIN (SELECT DISTINCT rank FROM events
    WHERE event = 'warning' AND contains(message, 'will create a reference cycle between the parameter')) c
    ON c.rank = f.rank AND f.what_ = 'tensors_without_graphs'
ORDER BY f.step, f.rank, severity, f.value DESC, f.module
