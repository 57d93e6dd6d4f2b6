/*
code = "NU022"
name = "tiny-denominator"
severity = "error"
phase = "forward"
signal = "min"
message = "At step {step} {op_}{place_} divided by {value} (smallest of {numel}, {dtype}, shape {shape}). In {looks} steps before its smallest divisor was {least_before}, so a quotient can be {times} times as large. In the same step {effect_}."
fix = "Put a floor under the divisor that fits the data, not the number format. Examples are std.clamp(min=1e-2 * typical std) and x / (scale + 1e-3 * typical scale). Or leave out what has no scale of its own: an empty context, a still window, a constant feature. An eps of 1e-8 only turns a division by zero into one by 1e-8."
seeks = ["operators: trigger = 'collapse'"]
explains = ["nonfinite-values", "loss-off-course", "exploding-gradients", "exploding-activations", "lr-too-high", "silent-data-corruption", "unexplained-jump", "dead-relu", "saturated-activation", "frozen-by-zero-gradient", "plateau", "optimizer-state-drift", "shuffled-labels"]
[say.op_]
division = "a division"
reciprocal = "a reciprocal"
reciprocal_root = "a reciprocal root"
[say.place_]
loss = " in the code of the loss"
root = " in the root module"
module = " in {module}"
[say.effect_]
loss_rose = "the loss was {loss:.4g}, after at most {loss_before:.4g}"
norm_rose = "the gradient norm was {norm:.4g}, after at most {norm_before:.4g}"
lost = "numbers were lost"
[params.leap]
value = 10.0
unit = "times"
doc = "Loss or gradient norm over the largest of all steps before: beyond anything seen."
source = "own history"
[needs]
tables = ["steps", "operators"]
[doc]
what = "A divisor of one sign falls below a thousandth of the smallest value that the same division ever had. In this step loss or gradient norm leaves its own past by an order of magnitude, or numbers are lost."
why = "x / 1e-8 is finite and of any size; its gradient is larger still, as 1 / x^2."
not_this = "Divisors of exactly zero (division-by-zero), divisors that pass zero with both signs, a collapse without consequence."
source = "Arithmetic, and the run's own history."
*/
WITH harm AS (
    SELECT rank, step, max(abs(loss)) AS loss, max(loss_size_ever) AS loss_before, max(norm) AS norm,
        max(norm_peak_ever) AS norm_before,
        (rank, step) IN (SELECT (rank, step) FROM bad_steps) AS lost
    FROM optimizer_series GROUP BY rank, step
)
SELECT p.rank, p.step, p.microbatch, p.seq,
    CASE WHEN p.module IS NULL THEN 'loss' ELSE 'forward' END AS phase, p.module,
    p.op || '.' || p.saved AS tensor,
    CASE p.op WHEN 'Div' THEN 'division' WHEN 'Rsqrt' THEN 'reciprocal_root' ELSE 'reciprocal' END AS op_,
    CASE WHEN p.module IS NULL THEN 'loss' WHEN p.module = '' THEN 'root' ELSE 'module' END AS place_,
    CASE WHEN p.op = 'Div' THEN least(abs(p.min), abs(p.max)) ELSE 1 / p.max END AS value, p.numel, p.dtype,
        p.shape, p.looks, p.least_before,
    p.least_before / CASE WHEN p.op = 'Div' THEN least(abs(p.min), abs(p.max)) ELSE 1 / p.max END AS times,
    h.loss, h.loss_before, h.norm, h.norm_before,
    CASE WHEN isfinite(h.loss) AND h.loss > $leap * h.loss_before THEN 'loss_rose'
        WHEN isfinite(h.norm) AND h.norm > $leap * h.norm_before THEN 'norm_rose' ELSE 'lost' END AS effect_
FROM operator_sites p JOIN harm h ON h.rank = p.rank AND h.step = p.step
WHERE p.trigger = 'collapse' AND (h.lost OR h.loss > $leap * h.loss_before OR h.norm > $leap * h.norm_before)
  -- numbers that a root lost at exactly zero; what was added behind it is the divisor
  AND NOT (h.lost AND EXISTS (FROM operators q
      WHERE q.rank = p.rank AND q.step = p.step AND q.op IN ('Sqrt', 'Pow') AND q.zero_count > 0
        AND (q.rank, q.step) IN (SELECT (rank, step) FROM lost_in_backward)
        AND NOT EXISTS (FROM operators e
            WHERE e.rank = q.rank AND e.step < q.step AND e.op = q.op AND e.zero_count > 0)))
-- of several, the one that ran first
QUALIFY row_number() OVER (PARTITION BY p.rank ORDER BY p.step, p.graph_seq) = 1
ORDER BY p.step, p.rank
