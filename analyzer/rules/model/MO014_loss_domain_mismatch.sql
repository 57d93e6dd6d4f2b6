/*
code = "MO014"
name = "loss-domain-mismatch"
severity = "error"
phase = "loss"
signal = "loss_input"
message = "At step {step} {what_}."
fix = "{fix_}"
explains = ["loss-sign-flipped", "divergence", "nothing-learnt", "log-of-zero", "outlier-batch", "python-exception", "shuffled-labels"]
[say.what_]
input_above_zero = "the input of {loss_op} is no logarithm of a probability: {value:.4g} is above 0"
wrong_dimension = "the input of {loss_op} (shape {shape}) is a softmax over dimension {dimension}, not over the classes (dimension 1)"
beside_targets = "the loss multiplies soft targets, which are probabilities over dimension {classes}, by a log_softmax over dimension {dimension} (shape {shape})"
kl_div_of_probabilities = "kl_div is given probabilities right from a softmax where it wants their logarithms"
target_no_probability = "the target of {loss_op} is no probability: {value:.4g} is outside [0, 1]"
input_no_probability = "binary_cross_entropy is given no probabilities: the model ({class_name}) gives out numbers from {lowest:.4g} to {highest:.4g}"
[say.fix_]
log_softmax_first = "Apply log_softmax before nll_loss, or use cross_entropy on the logits."
log_softmax_last = "Apply log_softmax last, right before ctc_loss: what is added or scaled afterwards leaves sums of probabilities other than 1."
log_softmax_over_classes = "Take log_softmax over the dimension of the classes (dim=1), or use cross_entropy on the logits."
log_softmax_beside = "Take log_softmax over dimension {classes}, as the targets have it."
log_softmax_for_kl_div = "Give kl_div the result of log_softmax."
targets_of_0_and_1 = "Map the targets to 0 and 1."
logits_or_sigmoid = "Use binary_cross_entropy_with_logits, or put a sigmoid after the last layer."
[params.rounding]
value = 1e-3
doc = "How far a number may lie beyond the end of what is allowed."
source = "convention: of this project, rounding of half precision"
[params.above_one]
value = 1.001
doc = "The same above one."
source = "convention: of this project, rounding of half precision"
[needs]
tables = ["batches", "tensor_stats"]
or_raised = ["bce-range"]
[doc]
what = "The input of nll_loss, kl_div or ctc_loss holds positive numbers (no log-probabilities). Or it comes right from a softmax over another dimension than that of the classes. Or a cross entropy by hand takes log_softmax over another dimension than that over which its soft targets sum to 1. Or the target of a binary cross entropy is outside [0, 1]. Or torch refuses the input of one, and the model gives out numbers that are no probabilities."
why = "The loss is then no likelihood: it can fall without bound and its minimum is nowhere."
not_this = "cross_entropy, which takes the logarithm itself. Rounding above zero. Binary cross entropy with reduction='none', of which the script may leave out elements by a mask."
source = "Definition of each loss: log-probabilities are at most 0, probabilities lie in [0, 1]."
*/
-- shared
WITH targets AS (
    SELECT b.rank, b.step, b.microbatch, b.loss_op, s.min, s.max, s.sum / nullif(s.numel, 0) AS mean, b.seq,
        b.reduction
    FROM batches b
    LEFT JOIN tensor_stats s ON s.rank = b.rank
        AND s.step = b.step
        AND s.seq = b.seq
        AND s.tensor_id = b.tensor_id
    WHERE b.role = 'target' AND b.loss_op IS NOT NULL AND b.phase <> 'eval'
    QUALIFY row_number() OVER (PARTITION BY b.rank, b.step, b.microbatch ORDER BY b.seq) = 1
)
-- detector: above_zero
WITH given AS (
    SELECT b.rank, b.step, b.microbatch, b.loss_op, max(s.max) AS high, min(s.seq) AS seq
    FROM batches b
    JOIN tensor_stats s ON s.rank = b.rank AND s.step = b.step AND s.microbatch = b.microbatch
    JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id AND t.kind = 'output'
    WHERE b.role = 'target' AND b.phase <> 'eval' AND s.phase <> 'eval'
      -- older recordings do not say which input belongs to a target: the one right before it
      AND s.seq = coalesce(b.loss_input, b.seq - 1)
    GROUP BY ALL
)
SELECT g.rank, g.step, g.microbatch, g.seq, g.high AS value, g.loss_op, 'input_above_zero' AS what_,
    'log_softmax_first' AS fix_, 'loss:input' AS tensor
FROM given g
WHERE g.loss_op IN ('NllLoss', 'NllLoss2D', 'KlDiv') AND g.high > $rounding
-- detector: ctc_above_zero
SELECT p.rank, p.step, p.microbatch, p.seq, p.max AS value, p.op AS loss_op, 'input_above_zero' AS what_,
    'log_softmax_last' AS fix_, 'loss:input' AS tensor
FROM operators p WHERE p.trigger = 'risk' AND p.op = 'CtcLoss' AND p.saved = 'log_probs' AND p.max > $rounding
-- detector: wrong_dimension
SELECT p.rank, p.step, p.microbatch, p.seq, p.shape[2] AS value, p.op AS loss_op, p.shape,
    split_part(p.saved, ' ', 2) AS dimension, 'wrong_dimension' AS what_,
    'log_softmax_over_classes' AS fix_, 'loss:input' AS tensor
FROM operators p WHERE p.trigger = 'risk' AND p.op IN ('NllLoss', 'NllLoss2D') AND p.saved LIKE 'dimension %'
-- detector: beside_soft_targets
SELECT p.rank, p.step, p.microbatch, p.seq, p.shape[2] AS value, p.op AS loss_op, p.shape,
    split_part(p.saved, ' ', 2) AS dimension, split_part(p.saved, ' of ', 2) AS classes,
    'beside_targets' AS what_, 'log_softmax_beside' AS fix_, 'loss:input' AS tensor
FROM operators p WHERE p.trigger = 'risk' AND p.op = 'SoftTargets' AND p.saved LIKE 'dimension %'
-- detector: probabilities_for_kl_div
SELECT p.rank, p.step, p.microbatch, p.seq, NULL AS value, 'kl_div_of_probabilities' AS what_,
    'log_softmax_for_kl_div' AS fix_, 'loss:input' AS tensor
FROM operators p WHERE p.trigger = 'risk' AND p.op = 'KlDiv' AND p.saved = 'probabilities'
-- detector: targets_no_probability
SELECT t.rank, t.step, t.microbatch, t.seq, CASE WHEN t.min < 0 THEN t.min ELSE t.max END AS value,
    t.loss_op, 'target_no_probability' AS what_, 'targets_of_0_and_1' AS fix_, 'loss:target' AS tensor
FROM targets t
WHERE t.loss_op LIKE 'BinaryCrossEntropy%' AND (t.min < -$rounding OR t.max > $above_one)
-- of single losses the script may leave those out whose target is a mark for "unknown"
AND t.reduction IS DISTINCT FROM 'none'
-- detector: refused
-- torch has refused the input of a binary cross entropy: what the model that ran last gave out says why.
-- NaN fails the same check, and is another matter
SELECT s.rank, s.step, s.microbatch, s.seq, CASE WHEN s.min < 0 THEN s.min ELSE s.max END AS value,
    'fatal' AS severity, m.module, m.class_name, s.min AS lowest, s.max AS highest,
    'input_no_probability' AS what_, 'logits_or_sigmoid' AS fix_, 'loss:input' AS tensor
FROM exits e
JOIN known_exceptions k ON k.known = 'bce-range' AND regexp_matches(e.exception_message, k.pattern)
JOIN tensor_stats s ON s.rank = coalesce(e.rank, 0) AND s.step = e.step AND s.phase <> 'eval'
JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id
    AND t.kind = 'activation' AND t.tensor_name LIKE '%:output0'
JOIN modules m ON m.rank = t.rank AND m.module_id = t.module_id AND m.module = ''
WHERE contains(e.exception_message, 'of input') AND s.nan_count = 0 AND s.inf_count = 0
  AND (s.min < -$rounding OR s.max > $above_one)
QUALIFY row_number() OVER (PARTITION BY s.rank ORDER BY s.seq DESC) = 1
-- together
ORDER BY step, rank, microbatch
