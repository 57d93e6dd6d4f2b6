/*
code = "ME001"
name = "graph-retained-across-steps"
severity = "error"
phase = "loss"
signal = "graphs_alive"
message = "{kept_}."
fix = "Add loss.item() or loss.detach() to what is summed or kept, not the loss itself. Detach a state that is carried from one step to the next, and update a buffer under torch.no_grad()."
seeks = [
    [
        """steps: graphs_alive >= $least OR output_graphs_alive >= $least OR forward_graphs_alive >= $least \
            OR NOT completed AND step > 0 AND contains(calls, 'f') \
            AND NOT contains(left(calls, greatest(len(calls) - 1, 0)), 'b')""",
        "events: event IN ('buffer-carried', 'graphs-let-go')",
    ],
]
explains = ["host-memory-leak", "memory-short", "throughput-drift", "tensor-list-growth", "python-exception"]
[say.at_]
at_a_line = " ({line})"
[say.grows_]
memory_grows = ". Memory grows by {bytes_per_step:bytes} a step"
[say.holder_]
keeps_them = ". What keeps them is {holder}"
[say.kept_]
losses_kept = "From step {step} on the autograd graphs of earlier losses stay alive, one more each step: {value} at the end{grows_}{holder_}"
steps_kept = "From step {step} on the autograd graphs of earlier steps stay alive, more with each step: {value} at the end{grows_}{holder_}"
losses_kept_until_anew = "From step {step} on the autograd graphs of earlier losses stay alive, one more each step: {value} at most, until the sum or list begins anew{grows_}{holder_}"
buffers_kept = "From step {step} on buffer {buffer} is made of its own value of the step before, with the graph of that value: the graphs of all earlier steps stay alive, one more each step"
let_go_unused = "After step {last_step} {forwards} forwards ran with gradients before the next backward. The graphs of {value} of them lived at once, and no backward used them: a sum of losses, or a list of outputs, holds them"
earlier_graph_freed = "The first backward of step {step} goes back into the autograd graph of an earlier step{at_}, which was freed when that step ran its own backward"
earlier_graph_changed = "The first backward of step {step} goes back into the autograd graph of an earlier step{at_}, whose weights the optimizer has changed since"
[params.least]
value = 8
unit = "graphs"
doc = "Graphs alive, and steps of growth."
source = "convention: of this project, fewer may be kept on purpose, as for a loss over several steps"
[params.grown]
value = 8388608
unit = "bytes"
doc = "Growth of the process from then on that is worth a word."
source = "convention: of this project, 8 MiB: less is what allocators and caches take"
[params.half]
value = 0.5
unit = "of the steps"
doc = "Share of the steps in which graphs were added."
source = "arithmetic: of every other step at least, where some are not watched"
[params.each]
value = 0.9
unit = "a step"
doc = "Terms that a sum gains, from which on it gains one in each step."
source = "arithmetic: one, but for a step that was missed"
[params.rises]
value = 3
unit = "looks"
doc = "Looks at which more was kept than at the one before: what a step keeps of the one before it rises once."
source = "convention: of this project, fewer may be a plateau"
[needs]
tables = ["steps"]
columns = ["steps.graphs_alive"]
steps = 10
or_raised = ["backward-twice", "inplace-modified"]
[doc]
what = "The number of losses of earlier steps whose autograd graph still exists grows with the steps. Or a sum or a list of numbers with their graphs grows, and keeps the model outputs behind them alive. Or each step makes a state of the one before, which keeps all their graphs, though no output stays and no list holds any. Or a sum of losses with their graphs grows by one in each step. It starts again now and then, as with an epoch. Or a list of them does, and memory grows with it. Or a buffer of the model is made of its own value of the step before, with its graph. Or the graphs of many forwards between two steps live at once, and are let go of before the next backward (advice). Or the first backward of a later step ends by torch's exception about a graph that was freed, or whose weights a step has changed, although the step has run its forward anew."
why = "Each graph keeps its nodes and what they saved: memory and time grow until the process dies."
not_this = "The loss of the last step or two, a graph over several steps that is released, a bounded history. An exception in a second backward of one step, or in one without a new forward: two losses share one graph there."
source = "Counting marks in the graphs themselves; who holds them is looked for once they gather. The exception and the order of calls in the step that it ended."
*/
-- shared
WITH alive AS (
    SELECT rank, step, max(graphs_alive) AS alive, row_number() OVER (PARTITION BY rank ORDER BY step) AS n,
        lag(alive) OVER (PARTITION BY rank ORDER BY step) AS was
    FROM steps
    WHERE graphs_alive IS NOT NULL AND completed
    GROUP BY rank, step
), ends AS (
    -- of steps that are not watched no graph is counted, and none of theirs has a mark
    SELECT rank, arg_max(alive, step) AS value, max(alive) AS most,
        max(step) FILTER (alive = 0) AS last_clean,
        max(n) - coalesce(max(n) FILTER (alive = 0), 0) AS since, count(*) FILTER (alive > was) AS rises
    FROM alive
    GROUP BY rank
), gathering AS (
    SELECT e.rank, greatest(coalesce(e.last_clean, 0) - 1, 0) AS step, e.value FROM ends e
    WHERE e.value >= $least AND e.value = e.most AND e.value >= $half * e.since AND e.rises >= $rises
), numbers AS (
    -- a part of the loss, such as one of its terms: the graph of the whole ends, and what the part was made
    -- of stays; or a state that is carried
    -- from step to step: each is made of the one before, whose memory goes while its graph stays
    SELECT g.rank, max(g.length) AS length, bool_and(len(g.shape) > 0) AS carried FROM memory_growing g
    WHERE g.with_graph AND g.steady AND g.rank NOT IN (SELECT rank FROM gathering)
      AND (len(g.shape) = 0
          OR g.kind = 'sum' AND NOT EXISTS (FROM memory_growing l
              WHERE l.rank = g.rank AND l.with_graph AND l.steady AND l.kind <> 'sum'))
    GROUP BY g.rank
), parts AS (
    -- a sum is followed some terms deep only; the forwards that stay are counted
    SELECT n.rank, greatest(any_value(n.length), arg_max(s.forwards, s.step)) AS value,
        max(s.step) FILTER (s.n = 0) AS last_clean,
        max(s.seen) - coalesce(max(s.seen) FILTER (s.n = 0), 0) AS since,
        max(s.n) AS most, arg_max(s.n, s.step) AS n, any_value(n.carried) AS carried
    FROM numbers n JOIN (
        SELECT rank, step, coalesce(max(forward_graphs_alive), 0) AS forwards,
            greatest(coalesce(max(output_graphs_alive), 0), forwards) AS n,
            row_number() OVER (PARTITION BY rank ORDER BY step) AS seen
        FROM steps
        WHERE completed
        GROUP BY rank, step
    ) s ON s.rank = n.rank
    GROUP BY n.rank
    HAVING any_value(n.length) >= $least AND max(s.n) >= $least AND arg_max(s.n, s.step) = max(s.n)
), let_go AS (
    -- a sum that begins anew with each epoch has kept them until then; or a list, where backward has not
    -- freed what is kept, so that memory grows with it
    SELECT o.rank, min(o.since_step) AS step,
        (SELECT max(a.alive) FROM alive a WHERE a.rank = o.rank) AS value
    FROM memory_owners o
    JOIN alive a ON a.rank = o.rank AND a.step = o.step AND a.alive >= $half * o.length
    WHERE o.with_graph AND len(o.shape) = 0 AND o.length >= $least AND o.rate >= $each
      AND (o.kind = 'sum' OR o.kind = 'list' AND $grown <= (
          SELECT arg_max(s.anonymous_bytes, s.step) - arg_min(s.anonymous_bytes, s.step)
          FROM steps s
          WHERE s.rank = o.rank AND s.step BETWEEN o.since_step + $least AND o.step))
      AND o.rank NOT IN (SELECT rank FROM gathering) AND o.rank NOT IN (SELECT rank FROM parts)
    GROUP BY o.rank
)
-- shared: carried
-- no output itself is held, and the graphs of all are: each step's state leads into that of the one before
WITH outputs AS (
    SELECT rank, step, max(output_graphs_alive) AS n, max(outputs_alive) AS held,
        lag(n) OVER (PARTITION BY rank ORDER BY step) AS was,
        row_number() OVER (PARTITION BY rank ORDER BY step) AS seen
    FROM steps
    WHERE output_graphs_alive IS NOT NULL AND completed
    GROUP BY rank, step
)
SELECT rank, max(step) FILTER (n = 0) AS last_clean, arg_max(n, step) AS value
FROM outputs
WHERE rank NOT IN (SELECT rank FROM gathering UNION SELECT rank FROM parts UNION SELECT rank FROM let_go
    UNION SELECT rank FROM memory_growing WHERE with_graph AND steady)
GROUP BY rank
HAVING max(held) = 0 AND arg_max(n, step) = max(n) AND max(n) >= $least AND count(*) FILTER (n < was) = 0
    AND count(*) FILTER (n > was) >= greatest($rises, $half * (max(seen) - max(seen) FILTER (n = 0)))
-- shared: graphs_kept
SELECT rank, greatest(coalesce(last_clean, 0) - 1, 0) AS step, value, 'steps_kept' AS kept_ FROM carried
UNION ALL
SELECT rank, step, value, 'losses_kept' AS kept_ FROM gathering
UNION ALL
SELECT rank, greatest(coalesce(last_clean, 0) - 1, 0), value,
    CASE WHEN carried THEN 'steps_kept' ELSE 'losses_kept' END
FROM parts
WHERE n >= $half * since
UNION ALL
SELECT rank, step, value, 'losses_kept_until_anew' FROM let_go WHERE value >= $least
-- detector: kept
WITH rates AS (
    SELECT f.rank, regr_slope(s.anonymous_bytes, s.step) AS bytes_per_step, count(*) AS steps
    FROM graphs_kept f
    JOIN steps s ON s.rank = f.rank AND s.step > f.step AND s.anonymous_bytes IS NOT NULL
    GROUP BY f.rank
), owners AS (
    SELECT rank, owner AS holder FROM memory_growing g
    WHERE g.with_graph AND (g.steady OR g.rank IN (SELECT rank FROM let_go))
    -- losses are numbers: a sum or a list of them before anything else
    QUALIFY row_number() OVER (PARTITION BY rank
        ORDER BY kind = 'sum' DESC, len(shape) = 0 DESC, length DESC) = 1
)
SELECT f.rank, f.step, f.value, 'error' AS severity, 'loss' AS phase,
    f.kept_, CASE WHEN r.bytes_per_step * r.steps >= $grown THEN 'memory_grows' END AS grows_,
    r.bytes_per_step, CASE WHEN o.holder IS NOT NULL THEN 'keeps_them' END AS holder_, o.holder
FROM graphs_kept f LEFT JOIN rates r USING (rank) LEFT JOIN owners o USING (rank)
WHERE f.rank NOT IN (SELECT rank FROM events WHERE event = 'buffer-carried')
-- detector: buffers
SELECT rank, (detail ->> '$.first')::BIGINT AS step, (detail ->> '$.alive')::DOUBLE AS value,
    'error' AS severity, 'forward' AS phase, 'buffers_kept' AS kept_, detail ->> '$.buffer' AS buffer
FROM events WHERE event = 'buffer-carried'
-- detector: unused
-- evaluations: what is let go of in each of them is bounded, so it is advice
SELECT rank, min(step) AS step, max((detail ->> '$.graphs')::DOUBLE) AS value, 'warning' AS severity,
    'loss' AS phase, 'let_go_unused' AS kept_, min(step) - 1 AS last_step,
    max((detail ->> '$.forwards')::BIGINT) AS forwards
FROM events WHERE event = 'graphs-let-go' AND rank NOT IN (SELECT rank FROM graphs_kept)
GROUP BY rank
-- detector: refused
-- the first backward of a step cannot meet a graph that this step has used up: it is of a step before.
-- Where the whole forward ran anew, something that was carried over leads into it
WITH forwards AS (
    SELECT rank, step, completed, retain_graph, calls,
        len(regexp_replace(regexp_extract(calls, '^[^b]*'), '[^f]', '', 'g')) AS n
    FROM steps
    WHERE calls IS NOT NULL
), usual AS (
    SELECT rank, max(n) AS n FROM forwards WHERE completed AND contains(calls, 'b') GROUP BY rank
)
SELECT coalesce(e.rank, 0) AS rank, e.step, NULL::DOUBLE AS value, 'fatal' AS severity, 'backward' AS phase,
    CASE k.known WHEN 'backward-twice' THEN 'earlier_graph_freed' ELSE 'earlier_graph_changed' END AS kept_,
    regexp_extract(e.user_frame, '^(.*:[0-9]+) in ', 1) AS line,
    CASE WHEN line <> '' THEN 'at_a_line' END AS at_
FROM exits e
JOIN known_exceptions k ON k.known IN ('backward-twice', 'inplace-modified')
    AND regexp_matches(e.exception_message, k.pattern)
JOIN forwards f ON f.rank = coalesce(e.rank, 0) AND f.step = e.step AND NOT f.completed
JOIN usual u ON u.rank = f.rank AND f.n >= greatest(u.n, 1)
WHERE e.phase = 'backward' AND e.step > 0
  -- no backward, and no other optimizer's step, before the one that failed
  AND NOT contains(left(f.calls, greatest(len(f.calls) - 1, 0)), 'b')
  AND NOT EXISTS (FROM steps s WHERE s.rank = f.rank AND s.step = f.step AND s.stepped)
  -- a weight is of this shape, and the script keeps its graphs for more than one backward
  AND (k.known = 'backward-twice'
      OR f.retain_graph AND EXISTS (FROM tensors t
          WHERE t.rank = f.rank AND t.kind = 'parameter' AND t.requires_grad AND len(t.shape) > 0
            AND array_to_string(t.shape, ', ')
                = regexp_extract(e.exception_message, 'Tensor \[([0-9, ]+)\]', 1)))
-- together
ORDER BY step, rank
