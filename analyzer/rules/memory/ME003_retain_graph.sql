/*
code = "ME003"
name = "retain-graph"
severity = "warning"
phase = "backward"
signal = "retain_graph"
message = "From step {step} on every backward keeps its graph (retain_graph=True), although only one backward runs on each loss."
fix = "Drop retain_graph=True; if an error asks for it, detach what is carried from one step to the next."
seeks = ["steps: retain_graph"]
[params.least]
value = 5
unit = "steps"
doc = "Steps in a row."
source = "convention: of this project, fewer may be two losses that share a graph"
[params.alive]
value = 5
unit = "graphs"
doc = "Graphs alive from which it is an error."
source = "convention: of this project, fewer may be two losses that share a graph"
[needs]
tables = ["steps"]
columns = ["steps.retain_graph"]
steps = 5
[doc]
what = "retain_graph=True in each step with one backward a step."
why = "What backward would free stays until the graph dies; with a carried state, time and memory grow."
not_this = "Several backwards on one graph (they need it), create_graph."
source = "Flags."
*/
WITH rows_ AS (
    SELECT rank, step, bool_or(retain_graph) AS kept, sum(microbatches) AS passes
    FROM steps
    GROUP BY rank, step
), runs AS (
    SELECT *,
        row_number() OVER (PARTITION BY rank
            ORDER BY step) - row_number() OVER (PARTITION BY rank, kept
            ORDER BY step) AS island,
        max(step) OVER (PARTITION BY rank) AS last
    FROM rows_
    WHERE passes >= 1
)
SELECT rank, min(step) AS step, count(*) AS value,
    CASE WHEN EXISTS (FROM steps s
        WHERE s.rank = runs.rank AND s.graphs_alive >= $alive) THEN 'error' ELSE 'warning' END AS severity
FROM runs WHERE kept AND passes = 1 GROUP BY rank, island HAVING count(*) >= $least
ORDER BY step, rank
