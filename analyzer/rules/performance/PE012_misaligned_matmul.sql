/*
code = "PE012"
name = "misaligned-matmul"
severity = "warning"
phase = "step"
signal = "input_dims"
message = "{value} of {calls} half-precision matrix products in the profile have a dimension that is not a multiple of 8, such as {dims_} in {module_}: they take slower kernels."
fix = "Pad the dimension (vocabulary, hidden size, classes) to the next multiple of 8, better 64."
explains = []
[params.share]
value = 0.2
doc = "Share of the products from which it is worth a word."
[params.time]
value = 0.05
doc = "Share of the profiled time that the products take on the device, where the trace tells it, below which they do not count."
[params.calls]
value = 4
unit = "calls"
doc = "Products to judge by."
[needs]
tables = ["profiler_events"]
columns = ["profiler_events.input_dims"]
[doc]
what = "Half-precision products on a device with a row or column count that 8 does not divide."
why = "Tensor cores work on blocks; what does not fit goes through slower kernels."
not_this = "Runs without a device, float32, a few odd products such as a head of ten classes among hundreds, or beside convolutions; products that take less than a twentieth of the profiled time."
source = "Documentation of cuBLAS: multiples of 8 elements in half precision. Not verified on a GPU by this project, only on rows as a GPU's profile gives them."
*/
WITH devices AS (
    SELECT DISTINCT rank FROM profiler_events WHERE cat = 'kernel'
), products AS (
    SELECT e.rank, e.step, e.module_id, e.input_dims,
        [d FOR d IN CAST(json(e.input_dims) AS BIGINT[][]) IF len(d) >= 2] AS shapes
    FROM profiler_events e JOIN devices USING (rank)
    WHERE e.name IN ('aten::mm', 'aten::addmm', 'aten::bmm', 'aten::baddbmm') AND e.input_dims IS NOT NULL
      AND regexp_matches(e.input_types, 'c10::Half|c10::BFloat16')
), weights AS (
    -- of the profiled time: where the device waits for the host, quicker kernels save nothing
    SELECT k.rank,
        sum(k.ns) FILTER (operator IN ('aten::mm', 'aten::addmm', 'aten::bmm',
            'aten::baddbmm')) / any_value(p.ns) AS share
    FROM kernel_times k
    JOIN (SELECT rank, sum(ns) AS ns FROM profiled_steps GROUP BY rank) p ON p.rank = k.rank
    GROUP BY k.rank HAVING count(operator) > 0
), marked AS (
    SELECT *, list_bool_or([s[-1] % 8 <> 0 OR s[-2] % 8 <> 0 FOR s IN shapes]) AS odd
    FROM products
    WHERE len(shapes) >= 2
)
SELECT k.rank, min(k.step) FILTER (odd) AS step, count(*) FILTER (odd) AS value, count(*) AS calls,
    mode(k.input_dims) FILTER (odd) AS dims_,
    coalesce('module ' || mode(nullif(m.module, '')) FILTER (odd), 'the model') AS module_,
        mode(m.module) FILTER (odd) AS module
FROM marked k LEFT JOIN modules m ON m.rank = k.rank AND m.module_id = k.module_id
LEFT JOIN weights w ON w.rank = k.rank
GROUP BY k.rank
HAVING coalesce(any_value(w.share), 0) >= CASE WHEN count(w.rank) > 0 THEN $time ELSE 0 END
    AND count(*) >= $calls
    AND count(*) FILTER (odd) > $share * count(*)
ORDER BY step, k.rank
