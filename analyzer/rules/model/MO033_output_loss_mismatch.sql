/*
code = "MO033"
name = "output-loss-mismatch"
severity = "error"
phase = "loss"
signal = "loss_input"
message = "At step {step} {what_}."
fix = "{fix_}"
seeks = ["operators: trigger = 'risk' AND saved IN ('sigmoid', 'softmax', 'tanh', 'relu')"]
explains = ["saturated-activation", "dead-relu", "vanishing-gradients", "divergence", "nothing-learnt", "double-softmax"]
[say.range_]
between = "{low} … {high}"
upwards = "{low} and above"
[say.but_]
mean_outside = "the mean of the targets is {value:.4g}"
too_low = "targets go down to {lowest:.4g}"
too_high = "targets go up to {highest:.4g}"
[say.what_]
out_of_reach = "what {loss_op} is given comes right from a {activation}, whose values lie in {range_}, but {but_}"
several_labels = "what {loss_op} is given comes right from a softmax, which sums to 1 for each sample, but the targets of a sample sum to {value:.3g}"
sigmoid_before_cross_entropy = "cross_entropy is given what comes right from a sigmoid: its logits lie between 0 and 1, so that no class becomes much likelier than another"
relu_before_cross_entropy = "the logits of {loss_op} come right from a ReLU: none is below 0, so no class can be spoken against"
relu_before_sigmoid = "the logits of {loss_op} come right from a ReLU: none is below 0, so no probability falls below 0.5"
[say.fix_]
scale_the_targets = "Leave the activation out at the end of the model, or scale the targets into its range."
one_probability_a_label = "Let each label have a probability of its own: a sigmoid and binary_cross_entropy, or the logits and binary_cross_entropy_with_logits."
leave_out_the_sigmoid = "Leave the sigmoid out: cross_entropy takes logits. Where a sample may have several labels, keep it and use binary_cross_entropy."
leave_out_the_relu = "Leave the ReLU out after the last layer."
[params.least]
value = 3
unit = "steps"
doc = "Looks that show it, all there are."
source = "convention: of this project, one batch may have odd targets"
[params.beyond]
value = 0.5
unit = "of the range"
doc = "How far targets are beyond the range of the activation. For a range without an end it is a share of the largest target, or of their standard deviation where their mean lies as near to the range's end."
source = "convention: of this project, noise goes a little beyond a range; half of it is another range"
[params.apart]
value = 0.2
doc = "How far the sum of a sample's targets is from 1."
source = "convention: of this project, label smoothing and rounding keep the sum; a fifth is other targets"
[needs]
tables = ["batches", "tensor_stats"]
[doc]
what = "The prediction of mse_loss, smooth_l1_loss or huber_loss comes right from an activation. Its range does not hold the mean of the targets, or is far from holding all of them. Or a softmax is compared with targets of several labels a sample. Or a sigmoid goes into the cross entropy of several classes. Or the logits of a cross entropy come right from a ReLU."
why = "The output can never become what the loss asks for, however well the rest learns; it saturates instead."
not_this = "Targets within the range of the activation, with noise a little beyond it. One label a sample under a softmax. Probabilities whose logarithm is taken."
source = "Definition of each activation: sigmoid and softmax lie in [0, 1], tanh in [-1, 1], a softmax sums to 1."
*/
-- shared
WITH targets AS (
    SELECT b.rank, b.step, b.microbatch, b.loss_op, b.seq, b.shape, s.min, s.max,
        s.sum / nullif(s.numel, 0) AS mean,
        sqrt(greatest(s.sum_sq / nullif(s.numel, 0) - pow(s.sum / nullif(s.numel, 0), 2), 0)) AS spread
    FROM batches b
    JOIN tensor_stats s ON s.rank = b.rank
        AND s.step = b.step
        AND s.seq = b.seq
        AND s.tensor_id = b.tensor_id
    WHERE b.role = 'target' AND b.loss_op IS NOT NULL AND b.phase <> 'eval'
    QUALIFY row_number() OVER (PARTITION BY b.rank, b.step, b.microbatch ORDER BY b.seq) = 1
), given AS (
    SELECT rank, step, microbatch, seq, op, saved, min, max FROM operators
    WHERE trigger = 'risk' AND saved IN ('sigmoid', 'softmax', 'tanh', 'relu')
    QUALIFY count(*) OVER (PARTITION BY rank, op) >= $least
)
-- detector: targets_out_of_reach
WITH reach AS (
    FROM (VALUES ('sigmoid', 0, 1), ('softmax', 0, 1), ('tanh', -1, 1),
        ('relu', 0, 'inf'::DOUBLE)) r (activation, low, high)
), own AS (
    -- a loss may have several operators of a kind: the one target that was measured is that of one of them
    SELECT p.* EXCLUDE (min, max, seq), coalesce(p.min, t.min) AS min, coalesce(p.max, t.max) AS max, t.seq,
        coalesce(p.min = t.min AND p.max = t.max, true) AS same, if(same, t.mean, NULL) AS mean,
        if(same, t.spread, NULL) AS spread
    FROM given p
    JOIN targets t ON t.rank = p.rank AND t.step = p.step AND t.microbatch = p.microbatch AND t.loss_op = p.op
), compared AS (
    SELECT p.rank, p.step, p.microbatch, p.op, p.saved, p.seq, p.mean, p.min, p.max,
        CASE WHEN isinf(r.high) THEN greatest(p.max, 0) ELSE r.high - r.low END AS width,
        bool_and(coalesce(p.mean < r.low OR p.mean > r.high, false)) OVER w AS outside, r.low, r.high,
        -- as of a standardised target: much of it lies below a range that has no end above
        coalesce(isinf(r.high) AND p.min < r.low - $beyond * p.spread
            AND p.mean < r.low + $beyond * p.spread, false) AS half_below
    FROM own p
    JOIN reach r ON r.activation = p.saved
    WHERE p.op NOT LIKE 'BinaryCrossEntropy%' AND p.op NOT LIKE 'NllLoss%'
    WINDOW w AS (PARTITION BY p.rank, p.op)
)
SELECT rank, step, microbatch, seq, mean AS value, op AS loss_op, saved AS activation, low, high,
    min AS lowest, max AS highest, CASE WHEN isinf(high) THEN 'upwards' ELSE 'between' END AS range_,
    CASE WHEN outside THEN 'mean_outside' WHEN half_below OR min < low - $beyond * width THEN 'too_low'
        ELSE 'too_high' END AS but_,
    'out_of_reach' AS what_, 'scale_the_targets' AS fix_, 'error' AS severity
FROM compared
QUALIFY outside
    -- not in some batch, but whenever it was looked at
    OR bool_and(half_below OR min < low - $beyond * width OR max > high + $beyond * width)
        OVER (PARTITION BY rank, op)
-- detector: several_labels_under_a_softmax
SELECT p.rank, p.step, p.microbatch, t.seq, t.mean * t.shape[-1] AS value, p.op AS loss_op,
    'several_labels' AS what_, 'one_probability_a_label' AS fix_, 'error' AS severity
FROM given p
JOIN targets t ON t.rank = p.rank AND t.step = p.step AND t.microbatch = p.microbatch AND t.loss_op = p.op
WHERE p.saved = 'softmax' AND p.op NOT LIKE 'NllLoss%' AND len(t.shape) = 2 AND t.shape[-1] > 2
  AND t.min >= 0 AND t.max <= 1
QUALIFY bool_and(abs(t.mean * t.shape[-1] - 1) > $apart) OVER (PARTITION BY p.rank, p.op)
-- detector: sigmoid_before_cross_entropy
SELECT rank, step, microbatch, seq, NULL AS value, 'sigmoid_before_cross_entropy' AS what_,
    'leave_out_the_sigmoid' AS fix_, 'error' AS severity
FROM given WHERE op LIKE 'NllLoss%' AND saved = 'sigmoid'
QUALIFY row_number() OVER (PARTITION BY rank, op ORDER BY step, seq) = 1
-- detector: relu_before_the_loss
SELECT rank, step, microbatch, seq, NULL AS value, op AS loss_op,
    CASE WHEN op LIKE 'Nll%' THEN 'relu_before_cross_entropy' ELSE 'relu_before_sigmoid' END AS what_,
    'leave_out_the_relu' AS fix_,
    CASE WHEN op LIKE 'Nll%' THEN 'warning' ELSE 'error' END AS severity
FROM given WHERE saved = 'relu' AND (op LIKE 'NllLoss%' OR op LIKE 'BinaryCrossEntropy%')
-- together
ORDER BY step, rank, microbatch
