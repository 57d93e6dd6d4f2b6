/*
code = "DA015"
name = "infeasible-ctc-target"
severity = "fatal"
phase = "loss"
signal = "loss"
message = "At step {step} the CTC loss is infinite: a target is longer than its input allows."
fix = "Filter samples whose target (with a blank between equal neighbours) is longer than the input, or use zero_infinity=True."
explains = ["nonfinite-tensor", "log-of-zero", "division-by-zero", "divergence", "masked-branch-nan-gradient", "nonfinite-weights-loaded", "sqrt-at-zero"]
[needs]
tables = ["steps", "operators"]
columns = ["operators.op"]
[doc]
what = "A loss of plus infinity from a CTC loss whose own inputs are finite."
why = "No alignment exists, so its probability is zero and its loss infinite; the gradient is NaN."
not_this = "Log-probabilities that are not finite themselves."
source = "Definition of the CTC loss."
*/
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
SELECT l.rank, l.step, 'loss' AS tensor, 'Infinity' AS value
FROM looked l
JOIN steps s ON s.rank = l.rank AND s.step = l.step
WHERE l.ctc AND NOT l.broken AND s.loss = 'Infinity'::DOUBLE ORDER BY l.step, l.rank
