/*
code = "DI005"
name = "unused-parameters"
severity = "fatal"
phase = "backward"
signal = "exception"
message = "DistributedDataParallel stopped the run because some parameters took no part in the loss of step {step}{missing_}."
fix = "Pass find_unused_parameters=True to DistributedDataParallel, or make every branch take part in the loss on every rank. Pass static_graph=True where the unused ones are always the same."
seeks = ["exits: regexp_matches(exception_message, '(?i)expected to have finished reduction in the prior iteration')"]
explains = ["python-exception", "rank-died", "ddp-hooks-lost", "ranks-diverged", "broken-graph"]
[say.missing_]
gradient = ", such as {tensor} on rank {missing_on}"
[needs]
ended = true
[doc]
what = "The exception of the reducer that waits for gradients of parameters that no rank, or not every rank, used."
why = "The reducer counts gradients; one that never comes leaves a bucket open."
not_this = "Parameters without gradients in a run of one process."
source = "Message of PyTorch's reducer."
*/
WITH raised AS (
    SELECT *
    FROM exits
    WHERE regexp_matches(exception_message, '(?i)expected to have finished reduction in the prior iteration')
), absent AS (
    SELECT s.rank, s.step, t.tensor_name AS tensor, m.module, m.call_order
    FROM tensor_stats s
    JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id AND t.kind = 'gradient'
    LEFT JOIN modules m ON m.rank = t.rank AND m.module_id = t.module_id
    JOIN raised r ON s.step BETWEEN r.step - 1 AND r.step
    WHERE s.missing
    QUALIFY row_number() OVER (ORDER BY s.step, m.call_order NULLS LAST, s.rank, t.tensor_name) = 1
)
SELECT coalesce(r.rank, 0) AS rank, coalesce(a.step, r.step, 0) AS step, r.microbatch, a.module, a.tensor,
    NULL::DOUBLE AS value, a.rank AS missing_on,
    CASE WHEN a.tensor IS NOT NULL THEN 'gradient' END AS missing_
FROM raised r LEFT JOIN absent a ON true
