/*
code = "MO008"
name = "exploding-activations"
severity = "error"
phase = "forward"
signal = "rms"
message = "At step {step} activations grow {factor} times a layer over {layers} layers. Their root mean square goes from {first} ({first_module}) to {value} ({module})."
fix = "Initialise by fan-in, normalise between layers, or scale residual branches."
explains = ["exploding-gradients", "fp16-overflow", "nonfinite-tensor", "loss-off-course", "lr-too-high", "logit-drift", "log-of-zero"]
[params.total]
value = 100.0
unit = "times"
doc = "Growth from the first layer to the largest."
source = "convention: of this project, He et al. (2015) keep the scale from layer to layer: a growth of one over the whole depth"
[params.factor]
value = 1.6
unit = "times"
doc = "Growth a layer, above the sqrt(2) that residual branches, or layers without activations, make under He initialisation."
source = "convention: of this project, sqrt(2) is what residual branches make at initialisation, and a tenth more is scatter"
[params.least]
value = 4
unit = "layers"
doc = "Layers of one kind, up to the largest."
source = "convention: of this project, fewer layers do not show a factor"
[params.replaced]
value = 0.3
doc = "Norm of an update before that step over norm of the weights, from which the update made them what they are."
source = "convention: of this project, an update of that size replaces weights rather than tunes them"
[params.start]
value = 5
unit = "steps"
doc = "First steps, in which the scale is that of the initialisation."
source = "convention: of this project, updates have hardly changed it"
[params.grows]
value = 1.3
unit = "times"
doc = "Growth of a layer that counts as one."
source = "convention: of this project, less is scatter"
[params.of_all]
value = 0.6
unit = "of the layers"
doc = "Share of the layers of one kind."
source = "convention: of this project, more than half"
[params.growing]
value = 0.75
unit = "of the layers"
doc = "Share of them that grow."
source = "convention: of this project, three of four"
[needs]
tables = ["tensor_stats", "modules"]
kinds = ["activation"]
[doc]
what = "In one of the first steps outputs of linear and convolution layers grow by a factor. They grow from each layer to the next, over most of the network. Or outputs of the same layer grow so from block to block."
why = "Gradients grow the same way backwards; half precision overflows."
not_this = "One large layer, a head that scales down again, growth by the sqrt(2) of residual sums. Growth that normalisation takes back, small networks, layers that an update has just thrown about (lr-too-high)."
source = "A sound initialisation keeps the scale: a hundredfold over the depth is none."
*/
WITH leaves AS (
    SELECT s.rank, s.step, m.model, m.module, m.call_order, max(sqrt(s.sum_sq / s.numel)) AS rms
    FROM tensor_stats s
    JOIN tensors t ON t.rank = s.rank
        AND t.tensor_id = s.tensor_id
        AND t.kind = 'activation'
        AND t.tensor_name LIKE '%:output0'
    JOIN modules m ON m.rank = t.rank AND m.module_id = t.module_id
    WHERE s.phase = 'forward'
      AND s.microbatch = 0
      AND s.step < $start
      AND s.nan_count + s.inf_count = 0
      AND regexp_matches(m.class_name, '^(Linear|Conv[123]d)$')
    GROUP BY ALL
), lines AS (
    -- all layers in order; or the same layer of one block after another, since those within a block may scale
    -- up and down
    SELECT *, '' AS line FROM leaves
    UNION ALL SELECT *, regexp_replace(module, '(^|\.)[0-9]+(\.|$)', '\1#\2', 'g') AS line
    FROM leaves
    WHERE regexp_matches(module, '(^|\.)[0-9]+\.')
), chains AS (
    SELECT *, row_number() OVER w AS n, lag(rms) OVER w AS below,
        count(*) OVER (PARTITION BY rank, step, model, line) AS layers, first_value(rms) OVER w AS first,
        first_value(module) OVER w AS first_module
    FROM lines WINDOW w AS (PARTITION BY rank, step, model, line ORDER BY call_order)
), tops AS (
    SELECT rank, step, model, line, arg_max(n, rms) AS top FROM chains GROUP BY rank, step, model, line
), judged AS (
    -- a head scales down again
    SELECT c.rank, c.step, c.model, c.line, t.top AS layers, any_value(c.layers) AS all_layers,
        avg((c.rms > $grows * c.below)::INT) FILTER (c.n > 1) AS growing,
        max(c.rms) AS value, arg_max(c.module, c.rms) AS module, any_value(c.first) AS first,
            any_value(c.first_module) AS first_module
    FROM chains c
    JOIN tops t ON t.rank = c.rank
        AND t.step = c.step
        AND t.model = c.model
        AND t.line = c.line
        AND c.n <= t.top
    GROUP BY c.rank, c.step, c.model, c.line, t.top
)
SELECT rank, step, module, value, first, first_module, layers,
    pow(value / first, 1.0 / (layers - 1)) AS factor
FROM judged
WHERE layers >= $least
  AND layers >= $of_all * all_layers
  AND growing > $growing
  AND value > $total * first
  AND first > 0
  AND pow(value / first, 1.0 / (layers - 1)) > $factor
  -- what an update has thrown about was sound before it: the step was too long
  AND NOT EXISTS (FROM optimizer_series u
      WHERE u.rank = judged.rank AND u.step < judged.step AND u.update_ratio > $replaced)
-- of several lines the one that goes furthest
QUALIFY row_number() OVER (PARTITION BY rank, step ORDER BY value DESC, layers DESC) = 1
ORDER BY step, rank
