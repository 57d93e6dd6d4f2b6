/*
code = "MO008"
name = "exploding-activations"
severity = "error"
phase = "forward"
signal = "rms"
message = "At step {step} activations grow layer by layer from a root mean square of {first} ({first_module}) to {value} ({module}) over {layers} layers, {factor} times a layer."
fix = "Initialise by fan-in, normalise between layers, or scale residual branches."
explains = ["exploding-gradients", "fp16-overflow", "nonfinite-tensor", "divergence", "lr-too-high", "logit-drift", "loss-spike", "log-of-zero"]
[params.total]
value = 1000.0
unit = "times"
doc = "Growth from the first to the last layer."
[params.least]
value = 4
unit = "layers"
doc = "Layers of one kind."
[needs]
tables = ["tensor_stats", "modules"]
kinds = ["activation"]
[doc]
what = "Outputs of linear and convolution layers that grow by a factor from each to the next, over all of the network, in one of the first steps."
why = "Gradients grow the same way backwards; half precision overflows."
not_this = "One large layer, growth that normalisation takes back, small networks."
source = "A sound initialisation keeps the scale: a thousandfold over the depth is none."
*/
WITH leaves AS (
    SELECT s.rank, s.step, m.model, m.module, m.call_order, max(sqrt(s.sum_sq / s.numel)) AS rms
    FROM tensor_stats s JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id AND t.kind = 'activation' AND t.tensor_name LIKE '%:output0'
    JOIN modules m ON m.rank = t.rank AND m.module_id = t.module_id
    WHERE s.phase = 'forward' AND s.microbatch = 0 AND s.step < 5 AND s.nan_count + s.inf_count = 0 AND regexp_matches(m.class_name, '^(Linear|Conv[123]d)$')
    GROUP BY ALL
), chains AS (
    SELECT *, row_number() OVER w AS n, lag(rms) OVER w AS below, count(*) OVER (PARTITION BY rank, step, model) AS layers, first_value(rms) OVER w AS first, first_value(module) OVER w AS first_module
    FROM leaves WINDOW w AS (PARTITION BY rank, step, model ORDER BY call_order)
), judged AS (
    SELECT rank, step, model, count(*) AS layers, avg((rms > 1.3 * below)::INT) FILTER (n > 1) AS growing, arg_max(rms, n) AS value, arg_max(module, n) AS module, any_value(first) AS first, any_value(first_module) AS first_module,
        max(rms) AS top, arg_max(rms, rms) AS top_value
    FROM chains GROUP BY rank, step, model
)
SELECT rank, step, module, value, first, first_module, layers, pow(value / first, 1.0 / (layers - 1)) AS factor FROM judged
WHERE layers >= $least AND growing > 0.75 AND value > $total * first AND first > 0 ORDER BY step, rank
