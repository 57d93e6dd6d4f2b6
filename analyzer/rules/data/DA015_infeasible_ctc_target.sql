/*
code = "DA015"
name = "infeasible-ctc-target"
severity = "fatal"
phase = "loss"
signal = "loss"
message = "{how_}"
fix = "{remedy_}"
seeks = ["operators: op LIKE 'CtcLoss%'"]
explains = ["nonfinite-tensor", "log-of-zero", "division-by-zero", "divergence", "masked-branch-nan-gradient", "nonfinite-weights-loaded", "sqrt-at-zero"]
[say.how_]
infinite = "At step {step} the CTC loss is infinite: a target is longer than its input allows."
hidden = "{value:.0f} of {samples:.0f} targets of the CTC loss are longer than their input ({longest:.0f} labels in {frames:.0f} frames, for one). From step {step} on, zero_infinity=True makes their loss and gradient zero: nothing is learnt from them."
[say.remedy_]
infinite = "Filter samples whose target (with a blank between equal neighbours) is longer than the input, or use zero_infinity=True."
hidden = "Let the network keep more frames: pool or stride less along the axis of time. Or filter samples whose target is longer than the input. Check input_lengths: they count the frames after pooling."
[params.share]
value = 0.1
unit = "of the targets"
doc = "Targets that do not fit."
source = "convention: of this project, a few odd samples are what zero_infinity is for"
[params.looks]
value = 3
unit = "looks"
doc = "Looks at such a loss."
source = "convention: of this project, one batch may be an odd one"
[needs]
tables = ["steps", "operators"]
columns = ["operators.op"]
[doc]
what = "A loss of plus infinity from a CTC loss whose own inputs are finite. Or a CTC loss with zero_infinity=True whose targets are longer than their inputs, for a tenth of the samples or more."
why = "No alignment exists, so its probability is zero and its loss infinite; the gradient is NaN."
not_this = "Log-probabilities that are not finite themselves. A few samples that do not fit, which zero_infinity is meant for."
source = "Definition of the CTC loss."
*/
-- detector: infinite
WITH bad AS (
    SELECT rank, min(step) AS step FROM bad_steps GROUP BY rank
), looked AS (
    SELECT o.rank, o.step, bool_or(o.op LIKE 'CtcLoss%') AS ctc,
        bool_or(o.op LIKE 'CtcLoss%' AND o.saved = 'log_probs' AND o.nan_count > 0) AS broken
    FROM operators o
    JOIN bad b ON b.rank = o.rank AND b.step = o.step
    WHERE o.trigger = 'nonfinite'
    GROUP BY o.rank, o.step
)
SELECT l.rank, l.step, 'loss' AS tensor, 'Infinity'::DOUBLE AS value, 'fatal' AS severity,
    'infinite' AS how_, 'infinite' AS remedy_
FROM looked l
JOIN steps s ON s.rank = l.rank AND s.step = l.step
WHERE l.ctc AND NOT l.broken AND s.loss = 'Infinity'::DOUBLE
-- detector: made_zero
SELECT rank, min(step) FILTER (zero_count > 0) AS step, 'loss' AS tensor, sum(zero_count) AS value,
    sum(numel) AS samples, arg_max(max, max - min) AS longest, arg_max(min, max - min) AS frames,
    'error' AS severity, 'hidden' AS how_, 'hidden' AS remedy_
FROM operators
WHERE trigger = 'risk' AND op LIKE 'CtcLoss%' AND saved = 'lengths'
GROUP BY rank
HAVING count(*) >= $looks AND sum(zero_count) >= $share * sum(numel)
-- together
ORDER BY step, rank
