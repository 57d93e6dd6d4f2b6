/*
code = "MO012"
name = "bad-init-scale"
severity = "error"
phase = "forward"
signal = "std"
message = "{tensor} starts with a standard deviation of {value}, {times} times what its {fan_in} inputs call for (about {usual}){and_}."
fix = "Initialise {tensor} by fan-in: standard deviation sqrt(2 / {fan_in}) before a ReLU, sqrt(1 / {fan_in}) otherwise."
explains = ["exploding-activations", "exploding-gradients", "gradients-vanish", "saturated-activation", "lr-too-high", "loss-off-course", "nothing-learnt", "dead-relu", "logit-drift", "nonfinite-tensor", "double-softmax", "lr-too-low", "representation-collapse", "attention-entropy-collapse"]
[say.and_]
others = ", as do {others} other weights"
[params.high]
value = 4.0
unit = "times"
doc = "Above sqrt(2 / fan_in)."
source = "convention: of this project, the largest usual gain is 5 / 3 (tanh), and residual and embedding scales stay below four"
[params.low]
value = 0.02
unit = "times"
doc = "Below sqrt(1 / (3 fan_in))."
source = "convention: of this project, fifty times below: small initialisations of last layers lie at 0.01 to 0.1"
[params.fan]
value = 8
doc = "Smallest fan-in that is judged."
source = "convention: of this project, of fewer inputs the spread of the weights is not told well"
[params.uniform]
value = 3
doc = "What the variance of a uniform distribution is divided by."
source = "arithmetic: a number within (-a, a) has the variance a^2 / 3"
[params.half]
value = 0.5
unit = "times"
doc = "Change of the scale beside what the matrix should make of it, at least."
source = "arithmetic: half and twice"
[needs]
tables = ["tensor_stats", "tensors", "modules"]
kinds = ["parameter"]
[doc]
what = "The weight of a linear or convolution layer has an unusual first standard deviation. It is far above or below every usual initialisation for its fan-in. For a layer that joins later it is far above. The same holds for a layer of the script's own that multiplies by a matrix."
why = "Activations and gradients change their scale by that factor in each layer."
not_this = "A model that follows one alike in the same run. Weights that start at zero or a constant, a loaded checkpoint's ordinary weights, normal(0, 0.02). A small start of a head whose output no layer takes in, small fan-in. Embeddings and heads tied to them."
source = "He initialisation sqrt(2 / fan_in), torch's default sqrt(1 / (3 fan_in)). Four times above and fifty below leave room for all usual gains."
*/
-- shared
WITH first AS (
    SELECT s.rank, s.tensor_id,
        arg_min(sqrt(greatest(s.sum_sq / s.numel - pow(s.sum / s.numel, 2), 0)), (s.step, s.seq)) AS std,
        arg_min(s.phase, (s.step, s.seq)) AS phase, min(s.step) AS step
    FROM tensor_stats s
    JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id AND t.kind = 'parameter'
    WHERE s.nan_count + s.inf_count = 0 GROUP BY s.rank, s.tensor_id
), again AS (
    -- of a model that follows one alike: it starts with what that has learnt, as the copies of clients do
    SELECT p.rank, p.tensor_id FROM parameters p JOIN first f ON f.rank = p.rank AND f.tensor_id = p.tensor_id
    JOIN parameters e ON e.rank = p.rank AND e.tensor = p.tensor AND e.shape = p.shape
    JOIN first b ON b.rank = e.rank AND b.tensor_id = e.tensor_id AND b.step < f.step
), weights AS (
    SELECT p.rank, p.tensor, p.module, p.call_order, f.std, f.step,
        list_product(list_transform(p.shape[2:], lambda x: x::DOUBLE))::BIGINT AS fan_in,
        p.shape[1] AS outs, p.shape[2] AS ins, p.class_name
    FROM parameters p JOIN first f ON f.rank = p.rank AND f.tensor_id = p.tensor_id
    WHERE regexp_matches(p.class_name, '^(Linear|Conv[123]d)$')
      AND p.tensor LIKE '%weight'
      AND len(p.shape) >= 2
      AND f.phase = 'forward'
      AND p.optimizer_id IS NOT NULL
      AND (p.rank, p.tensor_id) NOT IN (SELECT (rank, tensor_id) FROM again)
      -- a head that is tied to an embedding starts as the embedding does; its model scales what it puts out
      AND NOT EXISTS (FROM tensors h
          JOIN tensors e ON e.rank = h.rank AND e.storage = h.storage
          JOIN modules m ON m.rank = e.rank AND m.module_id = e.module_id
        WHERE h.rank = p.rank AND h.tensor_id = p.tensor_id AND m.class_name LIKE '%Embedding%')
      -- nor one that was tied to it until later in the run
      AND NOT EXISTS (FROM events u
          WHERE u.rank = p.rank
            AND u.event = 'weights-untied'
            AND u.step > 0
            AND p.tensor IN (u.detail->>'$.first', u.detail->>'$.second'))
)
-- detector: layers_of_torch
SELECT *
FROM weights w
WHERE fan_in >= $fan
  AND std > 0
  AND (std > $high * sqrt(2.0 / fan_in) OR w.step = 0 AND std < $low * sqrt(1.0 / ($uniform * fan_in))
    -- a small last layer dampens nothing: many policies and detectors begin so on purpose
    AND EXISTS (SELECT 1 FROM weights c WHERE c.rank = w.rank AND c.call_order > w.call_order
        AND (c.ins = w.outs
            OR (c.class_name = 'Linear' AND w.class_name <> 'Linear' AND c.ins % w.outs = 0))))
-- detector: own_layers
WITH outputs AS (
    -- outputs in order, each with what was seen right before it: where nothing lies between that is what went
    -- in
    SELECT s.rank, s.step, t.module_id, t.tensor_name, t.shape[-1] AS width, sqrt(s.sum_sq / s.numel) AS rms,
        lag(t.shape[-1]) OVER w AS width_in, lag(sqrt(s.sum_sq / s.numel)) OVER w AS rms_in
    FROM tensor_stats s
    JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id AND t.kind = 'activation'
    WHERE s.phase = 'forward' AND s.microbatch = 0 AND s.nan_count + s.inf_count = 0 AND s.numel > 0
    WINDOW w AS (PARTITION BY s.rank, s.step ORDER BY s.seq)
), own AS (
    -- a matrix of a layer that the script wrote itself: that it is one, and what its inputs are, shows in
    -- what it does to their scale
    SELECT p.rank, p.tensor, p.module, p.call_order, f.std, f.step, o.width_in AS fan_in, o.width AS outs,
        o.width_in AS ins, p.class_name
    FROM parameters p JOIN first f ON f.rank = p.rank AND f.tensor_id = p.tensor_id
    JOIN outputs o ON o.rank = p.rank
        AND o.step = f.step
        AND o.module_id = p.module_id
        AND o.tensor_name LIKE '%:output0'
    WHERE len(p.shape) = 2
      AND p.optimizer_id IS NOT NULL
      AND f.phase = 'forward'
      AND (p.rank, p.tensor_id) NOT IN (SELECT (rank, tensor_id) FROM again)
      AND NOT regexp_matches(p.class_name, '^(Linear|Conv[123]d)$|Embedding|RNN|LSTM|GRU|Attention')
      AND list_sort(p.shape) = list_sort([o.width_in, o.width])
        AND o.rms / nullif(f.std * sqrt(o.width_in) * o.rms_in, 0) BETWEEN $half AND 2
)
SELECT * FROM own WHERE fan_in >= $fan AND std > $high * sqrt(2.0 / fan_in)
-- together
SELECT rank, step, module, tensor, std AS value, fan_in,
    CASE
        WHEN std > sqrt(2.0 / fan_in) THEN std / sqrt(2.0 / fan_in)
        ELSE std / sqrt(1.0 / ($uniform * fan_in))
        END AS times,
    CASE
        WHEN std > sqrt(2.0 / fan_in) THEN sqrt(2.0 / fan_in)
        ELSE sqrt(1.0 / ($uniform * fan_in))
        END AS usual,
    count(*) OVER (PARTITION BY rank, step) - 1 AS others, CASE WHEN others > 0 THEN 'others' END AS and_
-- what joins later may have been trained elsewhere
FROM found w
WHERE w.step = 0
  OR NOT EXISTS (FROM checkpoints k
      WHERE k.rank = w.rank AND k.action IN ('weights', 'read') AND k.step BETWEEN w.step - 1 AND w.step + 1)
ORDER BY step, rank, call_order, tensor
