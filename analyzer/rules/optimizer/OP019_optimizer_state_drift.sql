/*
code = "OP019"
name = "optimizer-state-drift"
severity = "error"
phase = "optimizer"
signal = "optimizer_state"
message = "{what_}."
fix = "Find what writes into optimizer.state: a restored or averaged state, a wrong device copy. Where the gradients themselves grew, look at the data and the learning rate from step {step} on."
explains = ["loss-off-course", "exploding-gradients", "lr-too-high", "nonfinite-tensor", "dead-relu", "shuffled-labels"]
[say.what_]
state_altered = "At step {step} {tensor} is {value} in size, after {before} and a gradient of {gradient} in the step: {optimizer} could at most have made it {most}"
moments_grow = "From step {step} on the second moments of {optimizer} grow by more than 15 % a step for {running} steps, to {value} after at most {before}"
[params.margin]
value = 1.5
unit = "times"
doc = "Beyond the largest size that the recurrence allows, for rounding and for what a subclass may add."
source = "convention: of this project, rounding and samples of elements make less than half"
[params.growth]
value = 1.15
unit = "times a step"
doc = "Growth of the second moments that counts as drift when it goes on."
source = "arithmetic: 1.15 to the 8th is 3"
[params.running]
value = 8
unit = "steps"
doc = "Steps of such growth, one after the other."
source = "convention: of this project, the factor of 1.15 has tripled them by then"
[params.nothing]
value = 1e-20
doc = "Size below which a moment is zero."
source = "convention: of this project, far below any gradient of a training"
[params.warm]
value = 20
unit = "steps"
doc = "First steps, in which second moments grow from zero."
source = "convention: of this project, they have filled by then at beta2 0.9 to 0.95"
[params.far]
value = 10
unit = "times"
doc = "Growth over the whole stretch."
source = "convention: of this project, an order of magnitude"
[params.breaks]
value = 3
unit = "times"
doc = "Loss over all before it, from which the moments only follow."
source = "own history"
[needs]
tables = ["tensor_stats", "param_groups"]
kinds = ["optimizer_state", "gradient"]
steps = 4
[doc]
what = "After a step a moment or momentum buffer is larger than its old value and that step's gradient can make it. It was changed from outside, or corrupted. As a warning: second moments grow by 15 % a step, eight steps in a row. They come far above all their earlier values. The loss of that training does not break."
why = "The moments are the memory of the optimizer. A wrong one moves every weight in a wrong direction for 1/(1 - beta) steps. Loss and gradients of that step show no sign of it."
not_this = "The first twenty steps, in which moments fill up. State that was loaded. Optimizers that are not torch's own, whose recurrence is not known. A buffer that rests because the momentum was set to zero."
source = "Arithmetic: m(t) = b1 m(t-1) + (1-b1) g and its kin, by the triangle inequality. The 15 % over five steps of the catalogue, made stricter."
*/
-- detector: state_altered
WITH loaded AS (
    SELECT DISTINCT rank, step FROM events WHERE event = 'resume'
), inputs AS (
    SELECT s.*, sqrt(g.sum_sq) AS gradient,
        CASE WHEN coalesce(s.weight_decay, 0) = 0 THEN 0 ELSE s.weight_decay * sqrt(w.sum_sq) END AS decay
    FROM optimizer_states s
    JOIN tensor_stats g ON g.rank = s.rank
        AND g.step = s.step
        AND g.tensor_id = s.gradient_id
        AND NOT g.missing
        AND g.nan_count + g.inf_count = 0
    LEFT JOIN tensor_stats w ON w.rank = s.rank AND w.step = s.step - 1 AND w.tensor_id = s.parameter_id
    WHERE s.last_step = s.step - 1
      AND s.nonfinite_count = 0
      AND (s.rank, s.step) NOT IN (SELECT (rank, step) FROM loaded)
      -- what has not grown beyond its own decay by the margin needs no gradient to be right
      AND CASE
          WHEN s.key = 'exp_avg_sq' THEN s.sum > $margin * $margin * coalesce(s.beta2,
              1) * greatest(s.sum_before, 0)
        ELSE s.sum_sq > ($margin * coalesce(s.momentum, 1)) ** 2 * s.sum_sq_before END
    QUALIFY row_number() OVER (PARTITION BY s.rank, s.step, s.tensor_id ORDER BY g.seq DESC, w.seq DESC) = 1
), bounded AS (
    SELECT *, sqrt(sum_sq) AS value, sqrt(sum_sq_before) AS before, CASE
        WHEN optimizer IN ('Adam', 'AdamW', 'NAdam', 'RAdam')
            AND key = 'exp_avg' THEN momentum * sqrt(sum_sq_before) + (1 - momentum) * (gradient + decay)
        WHEN optimizer = 'SGD'
            AND key = 'momentum_buffer'
            AND momentum > 0 THEN momentum * sqrt(sum_sq_before) + gradient + decay END AS most
    FROM inputs
    UNION ALL BY NAME
    SELECT *, sqrt(sum) AS value, sqrt(sum_before) AS before,
        sqrt(beta2 * sum_before + (1 - beta2) * (gradient + decay) ** 2) AS most
    FROM inputs
    WHERE optimizer IN ('Adam', 'AdamW', 'NAdam', 'RAdam') AND key = 'exp_avg_sq' AND sum_before >= 0
)
SELECT rank, step, seq, module, tensor, value, before, most, gradient, optimizer, optimizer_id,
    'state_altered' AS what_, 'error' AS severity, call_order
FROM bounded WHERE value > $margin * most AND value > $nothing AND most IS NOT NULL
-- detector: moments_grow
WITH joint AS (
    SELECT rank, step, optimizer_id, any_value(optimizer) AS optimizer,
        sqrt(sum(sum * numel / sampled)) AS value,
        row_number() OVER (PARTITION BY rank, optimizer_id ORDER BY step) AS n
    FROM optimizer_states
    WHERE key = 'exp_avg_sq'
    GROUP BY rank, step, optimizer_id
    HAVING bool_and(nonfinite_count = 0)
), growing AS (
    SELECT *, lag(value) OVER w AS before,
        max(value) OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS highest,
        lag(n) OVER w AS n_before FROM joint WINDOW w AS (PARTITION BY rank, optimizer_id ORDER BY n)
), course AS (
    SELECT rank, step, avg(loss) AS loss FROM steps WHERE loss IS NOT NULL GROUP BY rank, step
), runs_ AS (
    SELECT *,
        sum(CASE WHEN value > $growth * before THEN 0 ELSE 1 END) OVER (PARTITION BY rank, optimizer_id
            ORDER BY n) AS island
    FROM growing
    WHERE n > $warm
), drifts AS (
    SELECT rank, optimizer_id, min(step) FILTER (value > $growth * before) AS step,
        count(*) FILTER (value > $growth * before) AS running, max(value) AS value,
        arg_min(highest, n) FILTER (value > $growth * before) AS before, max(step) AS until,
            any_value(optimizer) AS optimizer
    FROM runs_ GROUP BY rank, optimizer_id, island
)
SELECT rank, step, value, before, optimizer, optimizer_id, running, 'warning' AS severity,
    'moments_grow' AS what_
FROM drifts d WHERE running >= $running AND value > $far * before
  -- where the loss breaks with them the moments only follow
  AND NOT EXISTS (
    SELECT 1 FROM course c WHERE c.rank = d.rank AND c.step BETWEEN d.step AND d.until
      AND (NOT isfinite(c.loss)
          OR abs(c.loss) > $breaks * coalesce((SELECT max(abs(b.loss))
              FROM course b
              WHERE b.rank = d.rank AND b.step < d.step),
              abs(c.loss))))
-- together
ORDER BY severity, step, rank, call_order, tensor
