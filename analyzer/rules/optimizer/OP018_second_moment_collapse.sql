/*
code = "OP018"
name = "second-moment-collapse"
severity = "error"
phase = "optimizer"
signal = "exp_avg_sq"
message = "At step {step} the second moment {of_} of {optimizer} {how_}: {value} {beside_}; {harm_}."
fix = "Do not touch optimizer.state between steps. Where gradients vanish for long stretches use a larger eps, a smaller beta2, or a warm-up when they come back."
explains = ["loss-off-course", "exploding-gradients", "lr-too-high", "nonfinite-tensor", "optimizer-state-drift", "dead-relu"]
[say.of_]
one_tensor = "{tensor}"
all_weights = "of all weights"
[say.how_]
fell_too_far = "fell further than its decay rate allows"
had_decayed = "had decayed to nothing before"
is_below_eps = "is below the square of eps from the first step on"
[say.beside_]
after = "after {before}"
eps_squared = "eps squared being {before}"
[say.harm_]
became_nonfinite = "loss or gradients became non-finite"
ratio_rose = "the update ratio went from {ratio_median:.3g} to {update_ratio:.3g}"
changed_between_steps = "somebody changed it between two steps"
update_was_long = "the update of {parameter} was {length_:.3g} long after at most {longest_before:.3g}, and the loss left its band"
eps_divides = "the divisor is eps, and an update is {percent} % of what it is meant to be"
[params.fallen]
value = 1e-4
doc = "Share of its own peak to which the mean of a second moment decays before it counts as collapsed."
source = "own history"
[params.jump]
value = 5.0
unit = "times"
doc = "Growth of the update over the largest of the ten steps before that a collapsed moment must bring."
source = "own history"
[params.drowned]
value = 0.2
doc = "Root mean square of the gradients over eps below which eps is the divisor. An eps of more than 1e-6 is somebody's choice."
source = "arithmetic: Adam divides by the root plus eps: below a fifth of it eps makes five sixths of the divisor"
[params.least]
value = 20
unit = "steps"
doc = "Steps in which that is so, all there are."
source = "convention: of this project, fewer are the first steps"
[params.reset]
value = 0.2
doc = "Share of its sum of squares below which the first moment has been put back too: within one step it keeps beta1 of itself."
source = "arithmetic: beta1 is 0.9 and more, so a moment keeps four fifths of its sum of squares (0.81) in one step"
[params.anew]
value = 3.0
unit = "updates"
doc = "Change of a weight's norm from one step to the next, over the length of the update. It shows that the weight was drawn again."
source = "arithmetic: no update changes a norm by more than its own length"
[params.falls]
value = 0.9
unit = "of the sum"
doc = "Fall of a second moment within a step that no decay makes."
source = "arithmetic: beta2 is 0.9 and more"
[params.width]
value = 0.05
unit = "of the loss"
doc = "Least width of the scatter of the loss."
source = "convention: of this project, a twentieth of its level"
[params.coming]
value = 10
unit = "steps"
doc = "Steps after it in which the loss shows what it did."
source = "convention: of this project, its harm shows within a few steps"
[params.own_eps]
value = 1e-6
doc = "Largest eps that may be the optimizer's own."
source = "convention: of this project, larger ones are somebody's choice"
[params.decay_rate]
value = 0.8
doc = "Exponent of the decay of Adafactor's second moment."
source = "convention: Shazeer and Stern (2018), Adafactor: 1 - t^-0.8"
[params.before]
value = 10
unit = "steps"
doc = "Steps before, from which the longest update is told."
source = "convention: of this project, as many as show what is usual"
[params.band]
value = 8
unit = "robust sigmas"
doc = "Rise of the loss beside its scatter."
source = "own history"
[params.rise]
value = 1.5
unit = "times"
doc = "Rise of the loss beside its level."
source = "own history"
[params.raised]
value = 1.5
unit = "times"
doc = "Change of the learning rate up to which it is not what changed."
source = "convention: of this project, schedules change by less from step to step"
[needs]
tables = ["tensor_stats", "param_groups"]
kinds = ["optimizer_state"]
steps = 4
[doc]
what = "An exponential average of squared gradients falls in one step below what its decay rate allows. Or it has decayed to nothing. Then the next gradients make updates many times as long as before, and the loss leaves its band. Or it is far below the square of eps from the first step on."
why = "The second moment is the divisor of Adam's update. Where it is lost, an ordinary gradient makes an extraordinary step. The value v(t) = beta2 v(t-1) + (1 - beta2) g² cannot be smaller than beta2 v(t-1)."
not_this = "A new optimizer or a lost step counter (optimizer-state-lost). State that was loaded or put back to zero, both moments of it. The state of a weight that was drawn again, weights without gradients, rows of embeddings."
source = "Arithmetic on the same sample of elements: the recurrence of Adam (Kingma and Ba 2015). The decay rate is that of Adafactor (Shazeer and Stern 2018)."
*/
-- shared
WITH second AS (
    SELECT rank, tensor_id, step, seq, sum, sum_before, last_step, state_step, nonfinite_count, optimizer_id,
        optimizer, beta2
    FROM optimizer_states
    WHERE key = 'exp_avg_sq'
), suspects AS (
    SELECT rank, tensor_id
    FROM second
    GROUP BY ALL
    HAVING min(sum_before) <= $fallen * max(sum) OR bool_or(sum < $falls * sum_before)
), peaks AS (
    SELECT *, lag(state_step) OVER w AS state_step_before,
        max(sum) OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS sum_peak
    FROM second SEMI
    JOIN suspects USING (rank, tensor_id)
    WINDOW w AS (PARTITION BY rank, tensor_id ORDER BY step)
), moments AS (
    -- the few rows that can matter, with their names
    SELECT k.*, o.tensor, o.module, o.class_name, o.parameter, o.parameter_id, o.update_id, o.call_order
    FROM peaks k
    JOIN optimizer_state_tensors o ON o.rank = k.rank AND o.tensor_id = k.tensor_id
    WHERE k.last_step = k.step - 1
      AND k.sum_before > 0
      AND (k.sum < $falls * k.sum_before OR k.sum_before <= $fallen * k.sum_peak)
), effects AS (
    SELECT rank, optimizer_id, step, loss_median, update_ratio, ratio_median, ratio_peak_ever, lr, lr_before,
        max(finite(loss)) OVER soon AS loss_soon,
            bool_or(is_nonfinite(loss) OR is_nonfinite(norm)) OVER soon AS breaks,
        greatest(loss_sigma, $width * abs(loss_median)) AS spread
    FROM optimizer_series
    WINDOW soon AS (PARTITION BY rank, optimizer_id ORDER BY n ROWS BETWEEN CURRENT ROW AND $coming FOLLOWING)
)
-- detector: below_eps
WITH sizes AS (
    SELECT rank, step, optimizer_id, any_value(optimizer) AS optimizer, max(eps) AS eps, sum(numel) AS numel
    FROM param_groups
    GROUP BY ALL
), drowned AS (
    SELECT s.rank, min(s.step) AS step, s.optimizer_id, any_value(g.optimizer) AS optimizer,
        median(s.grad_norm ** 2 / g.numel) AS value, max(g.eps) ** 2 AS before,
        median(s.grad_norm / sqrt(g.numel) / g.eps) AS share
    FROM optimizer_series s
    JOIN sizes g ON g.rank = s.rank AND g.step = s.step AND g.optimizer_id = s.optimizer_id
    WHERE g.optimizer IN ('Adam', 'AdamW', 'NAdam', 'RAdam')
      AND s.stepped
      AND s.grad_norm > 0
      AND isfinite(s.grad_norm)
    GROUP BY s.rank, s.optimizer_id
    HAVING count(*) >= $least
        AND max(g.eps) <= $own_eps
        AND max(s.grad_norm / sqrt(g.numel) / g.eps) < $drowned
)
SELECT d.rank, d.step, d.optimizer, d.value, d.before, d.optimizer_id, 'all_weights' AS of_,
    'is_below_eps' AS how_, 'eps_squared' AS beside_, 'eps_divides' AS harm_,
    percent_of(d.share / (1 + d.share)) AS percent, 2 AS kind_
FROM drowned d
-- detector: cut_off
WITH loaded AS (
    SELECT DISTINCT rank, step FROM events WHERE event = 'resume'
), fallen AS MATERIALIZED (
    -- other optimizers may begin with a faster decay, as Adafactor does: 1 - t^-0.8
    SELECT m.* FROM moments m
    WHERE m.last_step = m.step - 1
      AND m.sum_before > 0
      AND m.sum < $falls * m.sum_before * CASE WHEN m.optimizer ILIKE '%adam%'
          OR m.optimizer ILIKE '%lamb%' THEN m.beta2
        ELSE least(m.beta2, 1 - coalesce(m.state_step, m.step + 1) ** -$decay_rate) END
            AND m.nonfinite_count = 0
      AND (m.state_step IS NULL OR m.state_step = m.state_step_before + 1)
      AND (m.rank, m.step) NOT IN (SELECT (rank, step) FROM loaded)
      -- put back to the start with the first moment, as on purpose: no step is longer for it
      AND NOT EXISTS (FROM optimizer_states f
          WHERE f.rank = m.rank
            AND f.parameter_id = m.parameter_id
            AND f.key = 'exp_avg'
            AND f.step = m.step
            AND f.last_step = m.last_step
            AND f.sum_sq < $reset * f.sum_sq_before)
), drawn AS (
    -- a layer that was drawn again, and its state with it: the norm of one of its weights changed by more
    -- than an update can
    SELECT DISTINCT m.rank, m.parameter_id, m.step
    FROM fallen m
    JOIN parameters me ON me.rank = m.rank AND me.tensor_id = m.parameter_id
    JOIN parameters p ON p.rank = me.rank AND p.module_id = me.module_id
    JOIN tensor_stats w ON w.rank = p.rank AND w.tensor_id = p.tensor_id AND w.step = m.step
    JOIN tensor_stats v ON v.rank = w.rank AND v.tensor_id = w.tensor_id AND v.step = m.last_step
    JOIN tensor_stats u ON u.rank = w.rank AND u.tensor_id = p.update_id AND u.step = w.step
    WHERE abs(sqrt(w.sum_sq) - sqrt(v.sum_sq)) > $anew * sqrt(u.sum_sq)
), cut AS (
    SELECT m.* FROM fallen m
    WHERE NOT EXISTS (FROM drawn d
        WHERE d.rank = m.rank AND d.parameter_id = m.parameter_id AND d.step = m.step)
)
SELECT c.rank, c.step, c.seq, c.module, c.tensor, c.optimizer, c.sum AS value, c.sum_before AS before,
    c.optimizer_id, e.ratio_median, e.update_ratio, 'one_tensor' AS of_, 'fell_too_far' AS how_,
    'after' AS beside_,
    CASE WHEN e.breaks THEN 'became_nonfinite' WHEN e.update_ratio > 2 * e.ratio_median THEN 'ratio_rose'
        ELSE 'changed_between_steps' END AS harm_,
    0 AS kind_, c.call_order
FROM cut c LEFT JOIN effects e ON e.rank = c.rank AND e.step = c.step AND e.optimizer_id = c.optimizer_id
-- detector: drowned_by_eps
WITH steps_ AS (
    SELECT u.rank, u.tensor_id, u.step, sqrt(u.sum_sq) AS length_,
        max(sqrt(u.sum_sq)) OVER (PARTITION BY u.rank, u.tensor_id
            ORDER BY u.step ROWS BETWEEN $before PRECEDING AND 1 PRECEDING) AS longest_before
    FROM tensor_stats u
    WHERE (u.rank, u.tensor_id) IN (SELECT (rank, update_id)
        FROM moments
        WHERE sum_before <= $fallen * sum_peak)
), decayed AS (
    SELECT m.*, u.length_, u.longest_before FROM moments m
    JOIN steps_ u ON u.rank = m.rank AND u.tensor_id = m.update_id AND u.step = m.step
    WHERE m.last_step = m.step - 1 AND m.sum_before > 0 AND m.sum_before <= $fallen * m.sum_peak
      AND u.length_ > $jump * u.longest_before AND coalesce(m.class_name, '') NOT LIKE 'Embedding%'
)
SELECT d.rank, d.step, d.seq, d.module, d.tensor, d.optimizer, d.sum_before AS value, d.sum_peak AS before,
    d.optimizer_id, d.parameter, d.length_, d.longest_before, 'one_tensor' AS of_, 'had_decayed' AS how_,
    'after' AS beside_, 'update_was_long' AS harm_, 1 AS kind_, d.call_order
FROM decayed d JOIN effects e ON e.rank = d.rank AND e.step = d.step AND e.optimizer_id = d.optimizer_id
WHERE (e.breaks OR (e.loss_soon > e.loss_median + $band * e.spread AND e.loss_soon > $rise * e.loss_median))
  AND coalesce(e.lr <= $raised * e.lr_before, true)
-- together
ORDER BY step, rank, kind_, call_order, tensor
