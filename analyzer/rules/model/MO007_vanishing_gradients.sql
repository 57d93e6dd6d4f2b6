/*
code = "MO007"
name = "vanishing-gradients"
severity = "error"
is = ["gradients-vanish"]
phase = "backward"
signal = "gradient_ratio"
message = "Gradients of the first layers are {value:.2g} of those of the last, for {steps} steps from step {step} on. Their rms is {first_rms} at {tensor} and {last_rms} at {last_tensor}, {course_} {layers} layers."
fix = "Use ReLU-family activations, normalisation layers, residual connections, or an init that fits the activation. The functions tanh and sigmoid lose up to three quarters of the gradient per layer."
explains = ["shuffled-labels"]
[say.course_]
steadily = "falling steadily through"
at_one_place = "lost within"
[params.ratio]
value = 1e-4
doc = "rms of the first layers' gradients over that of the last layers'."
source = "convention: published tools warn at 1e-2 to 1e-4; this is the lowest"
[params.half]
value = 0.03
doc = "The same for each half of the depth alone: the loss is spread over the layers, not at one of them."
source = "convention: of this project, half of the depth loses about the root of the ratio, 0.01. Three times as much is allowed"
[params.nothing]
value = 1e-6
doc = "Ratio under which it does not matter where the gradient is lost: about the resolution of float32."
source = "arithmetic: about eight times the resolution of float32, 2^-23"
[params.layers]
value = 5
unit = "layers"
doc = "Weight matrices that a chain must have."
source = "convention: of this project, fewer layers cannot lose that much"
[params.steps]
value = 10
unit = "steps"
doc = "Steps that must agree, and nine tenths of those from there to the end."
source = "convention: of this project, fewer may be the first steps"
[params.quarter]
value = 4
unit = "parts"
doc = "Parts of the depth that are compared."
source = "arithmetic: quarters"
[params.third]
value = 3
doc = "Number of the last of the middle quarters."
source = "arithmetic: quarters"
[params.start]
value = 5
unit = "steps"
doc = "Steps up to which it began with the run."
source = "convention: of this project, the first steps"
[params.lost]
value = 10
unit = "times"
doc = "Norm of the first layers before, up to which they had as little."
source = "convention: of this project, an order of magnitude"
[params.rest]
value = 0.9
unit = "of the steps"
doc = "Share of the steps from there on that must show it."
source = "convention: of this project, one of ten may not"
[needs]
tables = ["steps", "modules"]
kinds = ["gradient"]
steps = 10
[doc]
what = "From the last to the first layers, in the order of calls, the gradient of the weight matrices falls. It falls by four orders of magnitude on both halves of the way, or by seven anywhere. It does so at nearly every step."
why = "The first layers stay as they were initialised."
not_this = "Embeddings (sparse), biases and norms, exactly zero gradients (cut graph, dead units). A single small layer, a zero-initialised head in its first steps."
source = "Ratio to sibling tensors; published tools warn between 1e-2 and 1e-4 for the ratio."
*/
WITH layers AS (
    SELECT p.rank, p.model, p.tensor_id, p.tensor, p.module, p.numel, p.call_order,
        ntile($quarter) OVER chain AS quarter, count(*) OVER (PARTITION BY p.rank, p.model) AS layers
    FROM parameters p
    WHERE len(p.shape) >= 2
      AND p.requires_grad
      AND p.call_order IS NOT NULL
      AND p.gradient_id IS NOT NULL
      AND p.numel > 1
      AND p.optimizer_id IS NOT NULL AND NOT regexp_matches(p.class_name, '(?i)(embedding|norm)')
    WINDOW chain AS (PARTITION BY p.rank, p.model ORDER BY p.call_order, p.tensor_id)
), sized AS (
    SELECT l.rank, l.model, g.step, l.quarter, l.layers,
        exp(avg(CASE WHEN g.sum_sq > 0 THEN ln(sqrt(g.sum_sq / l.numel)) END)) AS rms,
            count(*) FILTER (coalesce(g.sum_sq, 0) = 0 OR g.nonfinite_count > 0) AS unusable
    FROM layers l JOIN param_steps g ON g.rank = l.rank AND g.tensor_id = l.tensor_id
    WHERE l.layers >= $layers
    GROUP BY l.rank, l.model, g.step, l.quarter, l.layers
), wide AS (
    SELECT rank, model, step, any_value(layers) AS layers, max(rms) FILTER (quarter = 1) AS first_rms,
        max(rms) FILTER (quarter = $quarter) AS last_rms,
        exp(avg(ln(rms)) FILTER (quarter IN (2, $third))) AS middle_rms, sum(unusable) AS unusable
    FROM sized GROUP BY rank, model, step
), judged AS (
    SELECT *, unusable = 0
        AND first_rms < $ratio * last_rms
        AND ((first_rms < $half * middle_rms AND middle_rms < $half * last_rms)
        OR (first_rms < $nothing * last_rms AND middle_rms < $ratio * last_rms)) AS vanished FROM wide
), counted AS (
    SELECT *, count(CASE WHEN vanished THEN 1 END) OVER rest AS rest_vanished,
        count(*) OVER rest AS rest_steps
    FROM judged
    WINDOW rest AS (PARTITION BY rank, model ORDER BY step ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)
)
SELECT c.rank,
    -- first layers that were no better off in the few steps before had lost their gradients then
    CASE WHEN c.step <= $start
        AND (SELECT max(e.first_rms)
            FROM judged e
            WHERE e.rank = c.rank AND e.model = c.model AND e.step < c.step) <= $lost * c.first_rms
        THEN (SELECT min(e.step) FROM judged e WHERE e.rank = c.rank AND e.model = c.model)
            ELSE c.step
            END AS step, f.module, f.tensor, c.first_rms / c.last_rms AS value,
    c.first_rms, c.middle_rms, c.last_rms, z.tensor AS last_tensor, c.layers,
    CASE WHEN c.first_rms < $half * c.middle_rms
        AND c.middle_rms < $half * c.last_rms THEN 'steadily' ELSE 'at_one_place' END AS course_,
        c.rest_vanished AS steps, c.model
FROM counted c
JOIN layers f ON f.rank = c.rank AND f.model = c.model
JOIN layers z ON z.rank = c.rank AND z.model = c.model
WHERE c.vanished AND c.rest_vanished >= $steps AND c.rest_vanished >= $rest * c.rest_steps
QUALIFY row_number() OVER (PARTITION BY c.rank, c.model
    ORDER BY c.step, f.call_order, f.tensor_id, z.call_order DESC, z.tensor_id DESC) = 1
ORDER BY step, c.rank, c.model
