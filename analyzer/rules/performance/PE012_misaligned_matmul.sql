/*
code = "PE012"
name = "misaligned-matmul"
severity = "warning"
phase = "step"
signal = "input_dims"
message = "{value} of {calls} half-precision matrix products in the profile{time_} have rows whose length is not a multiple of 8. They take slower kernels. An example is {dims_} in {module_}."
fix = "Pad the dimension (vocabulary, hidden size, classes, tokens of an attention) to the next multiple of 8, better 64."
seeks = [
    "profiler_events: cat = 'kernel'",
    """profiler_events: name IN ('aten::mm', 'aten::addmm', 'aten::bmm', 'aten::baddbmm') \
        AND regexp_matches(input_types, 'c10::Half|c10::BFloat16')""",
]
explains = []
[say.time_]
of_the_profile = " ({time_percent} % of its time)"
[say.module_]
model = "the model"
named = "module {of_module}"
[params.share]
value = 0.2
doc = "Share of the products from which it is reported, where the trace does not say which kernels are theirs."
source = "convention: of this project, a fifth of the products"
[params.time]
value = 0.05
doc = "Share of the profiled time that these products take on the device, where the trace says it. Below it they do not count."
source = "convention: of this project, a twentieth: less is not worth a change"
[params.calls]
value = 4
unit = "calls"
doc = "Products to judge by."
source = "convention: of this project, fewer may be an odd layer"
[params.multiple]
value = 8
unit = "elements"
doc = "What leading dimensions in half precision should be a multiple of."
source = "convention: the documentation of cuBLAS: 16 bytes, 8 elements in half precision"
[needs]
tables = ["profiler_events"]
columns = ["profiler_events.input_dims"]
[doc]
what = "A device computes half-precision products of rows whose length in memory 8 does not divide. These are rows of the result, and of the operands where the trace holds their strides."
why = "Tensor cores work on blocks; rows that begin between two blocks go through slower kernels."
not_this = "Runs without a device, float32, an odd number of rows (such as of tokens), products with a vector. A few odd products such as a head of ten classes among hundreds. Products that take less than a twentieth of the profiled time."
source = "Documentation of cuBLAS: leading dimensions that are multiples of 8 elements in half precision. In a public profile of an H100 with 1,505 products it names 365. And 240 ran in CUTLASS kernels of alignment 1, which were not matched one by one."
*/
WITH devices AS (
    SELECT DISTINCT rank FROM profiler_events WHERE cat = 'kernel'
), products AS (
    SELECT e.*, TRY_CAST(json(e.input_dims) AS BIGINT[][]) AS dims,
        TRY_CAST(json(e.input_strides) AS BIGINT[][]) AS strides,
        -- the first of a sum is what is added
        CASE WHEN e.name IN ('aten::addmm', 'aten::baddbmm') THEN 2 ELSE 1 END AS a
    FROM profiler_events e JOIN devices USING (rank)
    WHERE e.name IN ('aten::mm', 'aten::addmm', 'aten::bmm', 'aten::baddbmm') AND e.input_dims IS NOT NULL
      AND regexp_matches(e.input_types, 'c10::Half|c10::BFloat16')
), operands AS (
    SELECT * EXCLUDE (a), dims[a] AS left_, dims[a + 1] AS right_, strides[a] AS left_strides,
        strides[a + 1] AS right_strides
    FROM products WHERE len(dims) > a AND len(dims[a]) >= 2 AND len(dims[a + 1]) >= 2
), ran AS (
    SELECT d.rank, d.window_id, coalesce(nullif(d.external_id, 0), l.external_id) AS external_id,
        sum(d.dur_ns) AS ns
    FROM device_events d LEFT JOIN (
        SELECT rank, window_id, correlation, any_value(external_id) AS external_id FROM profiler_events
        WHERE lower(cat) IN ('cuda_runtime', 'cuda_driver', 'runtime') AND correlation IS NOT NULL
        GROUP BY ALL
    ) l ON l.rank = d.rank AND l.window_id = d.window_id AND l.correlation = d.correlation
    GROUP BY ALL
), marked AS (
    SELECT o.rank, o.step, o.module_id, o.input_dims, r.ns,
        right_[-1] > 1 AND left_[-2] > 1 AND (right_[-1] % $multiple <> 0
            OR coalesce(row_length(left_, left_strides) % $multiple <> 0, false)
            OR coalesce(row_length(right_, right_strides) % $multiple <> 0, false)) AS odd
    FROM operands o
    LEFT JOIN ran r ON r.rank = o.rank AND r.window_id = o.window_id AND r.external_id = o.external_id
), profiled AS (
    SELECT rank, sum(ns) AS ns FROM profiled_steps GROUP BY rank
)
SELECT k.rank, min(k.step) FILTER (odd) AS step, count(*) FILTER (odd) AS value, count(*) AS calls,
    mode(k.input_dims) FILTER (odd) AS dims_,
    percent_of_whole(sum(k.ns) FILTER (odd), any_value(p.ns)) AS time_percent,
    CASE WHEN count(k.ns) > 0 THEN 'of_the_profile' END AS time_,
    mode(nullif(m.module, '')) FILTER (odd) AS of_module,
    CASE WHEN of_module IS NULL THEN 'model' ELSE 'named' END AS module_,
    mode(m.module) FILTER (odd) AS module
FROM marked k LEFT JOIN modules m ON m.rank = k.rank AND m.module_id = k.module_id
LEFT JOIN profiled p ON p.rank = k.rank
GROUP BY k.rank
HAVING count(*) >= $calls AND count(*) FILTER (odd) > 0
    AND CASE WHEN count(k.ns) > 0 THEN coalesce(sum(k.ns) FILTER (odd), 0) >= $time * any_value(p.ns)
        ELSE count(*) FILTER (odd) > $share * count(*) END
ORDER BY step, k.rank
