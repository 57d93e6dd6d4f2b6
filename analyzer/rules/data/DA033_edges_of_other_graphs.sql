/*
code = "DA033"
name = "edges-of-other-graphs"
severity = "error"
phase = "data"
signal = "event"
message = "A batch of {graphs} graphs enters {class_name}, and {what_}. Nodes hear of nodes of other graphs."
fix = "Add to the edges of each graph the number of all nodes before it in the batch. It is a cumulative sum of the graphs' sizes, beginning with 0. torch_geometric.data.Batch does it."
seeks = ["events: event = 'edges-astray'"]
explains = ["plateau", "underfit", "overfit"]
[say.what_]
unmoved = "all its {edges} edges name nodes from 0 to {largest}, those of the first graphs: each graph's edges count from 0"
crossing = "{value:.0f} of its {edges} edges join nodes of two graphs"
[needs]
tables = ["events"]
[doc]
what = "A model is given pairs of nodes with the graph of each node. Pairs join nodes of two graphs, or all lie in the first graphs."
why = "A batch joins graphs to one large graph without edges between them. With a wrong offset messages go to the nodes of other graphs, and nothing raises."
not_this = "Edges whose nodes are of two kinds. Batches without the graph of each node. Batches on a device, which are not looked at."
source = "Comparison of integers. torch_geometric's documentation of mini-batches: adjacency matrices are stacked diagonally."
*/
SELECT e.rank, min(e.step) AS step, arg_min(m.module, place_of_call(m.call_order)) AS module,
    any_value(e.detail ->> '$.class') AS class_name,
    arg_min((e.detail ->> '$.crossing')::BIGINT, e.time_ns) AS value,
    arg_min((e.detail ->> '$.graphs')::BIGINT, e.time_ns) AS graphs,
    arg_min((e.detail ->> '$.edges')::BIGINT, e.time_ns) AS edges,
    arg_min((e.detail ->> '$.largest')::BIGINT, e.time_ns) AS largest,
    if(bool_and((e.detail ->> '$.unmoved')::BOOL), 'unmoved', 'crossing') AS what_
FROM events e
LEFT JOIN modules m ON m.rank = e.rank AND m.module_id = e.module_id
WHERE e.event = 'edges-astray'
GROUP BY e.rank
ORDER BY step, e.rank
