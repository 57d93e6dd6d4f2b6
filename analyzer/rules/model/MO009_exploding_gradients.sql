/*
code = "MO009"
name = "exploding-gradients"
severity = "error"
phase = "backward"
signal = "gradient_norm"
message = "The gradient norm (before clipping) left its band at step {step}: {value} after {compared_}, and kept growing to {highest}; {agreeing_}."
fix = "{clip_}, lower the learning rate or warm up longer, and check the init of deep or recurrent parts."
seeks = [
    "optimizer_series: history >= $history AND isfinite(norm) AND norm > $factor * norm_median AND norm > $ever * norm_peak_ever OR n BETWEEN 1 AND $starting AND (is_nonfinite(norm) OR is_nonfinite(loss) OR loss > $tenfold * loss_low_ever)",
]
explains = ["nonfinite-values", "loss-off-course", "log-of-zero", "shuffled-labels", "representation-collapse"]
reach = 30
slack = 1
[say.compared_]
own_history = "a median of {norm_median:.4g} in the steps before and never more than {norm_peak_ever:.4g}"
first_steps = "no history: these are the first steps of the run"
[say.agreeing_]
nonfinite = "then loss or gradients became non-finite"
loss_rose = "the loss rose to {loss_then:.4g}"
[say.clip_]
tighter = "Clipping at {bound:.4g} was not enough"
clip = "Clip the norm (clip_grad_norm_ at about {clip_at:.4g})"
[params.factor]
value = 10.0
unit = "times"
doc = "Above the median of its own last 30 steps, and 3 times above everything before."
source = "own history"
[params.z]
value = 6.0
unit = "robust sigmas"
doc = "Outside its own logarithmic history."
source = "own history"
[params.history]
value = 8
unit = "steps"
doc = "History that a judgement against a window needs."
source = "convention: of this project, fewer steps have no scatter to speak of"
[params.coming]
value = 10
unit = "steps"
doc = "Steps after it in which the loss shows what it did."
source = "convention: of this project, its harm shows within a few steps"
[params.starting]
value = 8
unit = "steps"
doc = "Steps after the first, in which a start breaks."
source = "convention: of this project, its harm shows within a few steps"
[params.ever]
value = 3
unit = "times"
doc = "Norm over the largest of all steps before."
source = "own history"
[params.floor]
value = 0.2
doc = "Least robust sigma of ln(norm)."
source = "convention: of this project, norms scatter by a fifth in any run"
[params.band]
value = 8
unit = "robust sigmas"
doc = "Rise of the loss beside its scatter."
source = "own history"
[params.width]
value = 0.05
unit = "of the loss"
doc = "Least width of its scatter."
source = "convention: of this project, a twentieth of its level"
[params.rise]
value = 0.5
unit = "of the loss"
doc = "Rise of the loss beside its level."
source = "arithmetic: half of it"
[params.hundredfold]
value = 100
unit = "times"
doc = "Growth of the norm that counts among several optimizers, and at the start."
source = "convention: of this project, two orders of magnitude"
[params.few]
value = 5
unit = "steps"
doc = "Norms that are back among the next ten, from which the harm has passed."
source = "arithmetic: half of them"
[params.tenfold]
value = 10
unit = "times"
doc = "The same growth where the loss breaks."
source = "convention: of this project, one order of magnitude"
[params.back]
value = 30
unit = "steps"
doc = "Steps after it in which a training may come back."
source = "convention: of this project, the window of the view optimizer_series"
[params.end]
value = 10
unit = "steps"
doc = "Last steps of the run, whose medians tell whether it has come back."
source = "convention: of this project, a median of ten is no accident"
[needs]
tables = ["steps"]
columns = ["steps.grad_norm"]
steps = 4
[doc]
what = "The gradient norm leaves its own history upward for at least three steps and goes on growing. The loss rises or breaks with it. Or the norm grows a hundredfold over the first steps while the loss does. This is a warning where the run ends with a lower loss than before it, and with norms as before."
why = "Each step throws the weights further than the loss surface is known."
not_this = "A single large gradient. A jump when layers are unfrozen or the task changes (it does not grow and the loss does not rise). Norms that grow while the loss falls. A few large gradients that are clipped and after which most steps are as before (loss-spike). Growth that ends in the overflow of a float16 activation within ten steps."
source = "Own history, robust: median and MAD of ln(norm) over the 30 steps before, maximum of all steps before."
*/
-- shared
WITH clipping AS (
    SELECT rank, step, max(clip_max_norm) AS bound FROM steps WHERE clip_norm IS NOT NULL GROUP BY rank, step
), ahead AS (
    SELECT *,
        list(norm) OVER soon AS norms_soon,
        max(finite(norm)) OVER soon AS highest, min(finite(norm)) OVER next_two AS next_low,
            count(*) OVER next_two AS next_rows,
        bool_or(is_nonfinite(norm) OR is_nonfinite(loss)) OVER soon AS breaks,
        max(finite(loss)) OVER soon AS loss_soon,
        first_value(norm) OVER whole AS norm_first, first_value(loss) OVER whole AS loss_first,
        max(finite(norm)) OVER start_ AS start_highest, max(finite(loss)) OVER start_ AS start_loss,
            bool_or(is_nonfinite(norm) OR is_nonfinite(loss)) OVER start_ AS start_breaks,
        min(finite(loss)) OVER start_ AS start_low,
        -- a training that ends below where it was, with gradients as before, has got over it
        coalesce(count(*) OVER after > $back
            AND median(CASE WHEN from_end <= $end THEN finite(loss) END) OVER whole < loss_median
            AND median(CASE WHEN from_end <= $end THEN finite(norm) END) OVER whole < $factor * norm_median,
            false) AS got_over
    FROM (SELECT *, row_number() OVER (PARTITION BY rank, optimizer_id ORDER BY n DESC) AS from_end
        FROM optimizer_series)
    WINDOW
        soon AS (PARTITION BY rank, optimizer_id ORDER BY n ROWS BETWEEN 1 FOLLOWING AND $coming FOLLOWING),
        next_two AS (PARTITION BY rank, optimizer_id ORDER BY n ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING),
        start_ AS (PARTITION BY rank, optimizer_id
            ORDER BY n ROWS BETWEEN 1 FOLLOWING AND $starting FOLLOWING),
        after AS (PARTITION BY rank, optimizer_id
            ORDER BY n ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING),
        whole AS (PARTITION BY rank, optimizer_id
            ORDER BY n ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
)
-- detector: later
SELECT *, 'own_history' AS compared_ FROM ahead
WHERE NOT EXISTS (FROM range_tests r
    WHERE r.rank = ahead.rank
      AND r.optimizer_id = ahead.optimizer_id
      AND ahead.step BETWEEN r.first_step AND r.last_step)
  AND history >= $history
    AND isfinite(norm)
    AND norm > $factor * norm_median
    AND norm > $ever * norm_peak_ever
  AND robust_z(log_size(norm), norm_log_median, norm_log_sigma, $floor) > $z
  AND (breaks OR (next_rows = 2 AND next_low > $factor * norm_median))
  -- a likelihood that gets sharper has steeper gradients all the way down
  AND (breaks OR coalesce(loss_soon > greatest(loss_median, loss), true))
  AND (breaks
      OR highest > $ever * norm
      OR (highest > 2 * norm
          AND loss_soon > 2 * abs(loss)
          AND loss_soon > loss_median + $band * greatest(loss_sigma, $width * abs(loss_median))
      AND loss_soon > loss_median + $rise * abs(loss_median)))
  AND (optimizers <= 1 OR breaks OR highest > $hundredfold * norm_median)
  -- clipping held, and most of the next ten steps are as they used to be: a spike
  AND (breaks OR len(list_filter(norms_soon, lambda x: x < $factor * norm_median)) < $few
    OR NOT EXISTS (SELECT 1
        FROM clipping c
        WHERE c.rank = ahead.rank AND c.step = ahead.step AND c.bound < norm))
-- detector: early
-- from the first steps on, before there is a history
SELECT *, 'first_steps' AS compared_ FROM ahead
WHERE n = 0 AND isfinite(norm) AND norm > 0 AND isfinite(loss) AND loss > 0
  AND (start_highest > $hundredfold * norm
      OR (start_breaks AND start_highest > $tenfold * norm)
      OR (start_breaks AND norm > $hundredfold * weight_norm))
  AND (start_breaks OR start_loss > $tenfold * loss) AND (start_breaks OR start_low > loss)
-- together
SELECT rank, step, NULL::VARCHAR AS module, NULL::VARCHAR AS tensor, norm AS value, norm_median,
    norm_peak_ever, optimizer_id,
    CASE compared_ WHEN 'own_history' THEN highest ELSE start_highest END AS highest,
    coalesce(CASE compared_ WHEN 'own_history' THEN loss_soon ELSE start_loss END, loss) AS loss_then,
    c.bound, coalesce(2 * norm_median, 1.0) AS clip_at, compared_,
    CASE WHEN breaks OR (compared_ = 'first_steps' AND start_breaks) THEN 'nonfinite'
        ELSE 'loss_rose' END AS agreeing_,
    CASE WHEN compared_ = 'own_history'
            AND got_over AND NOT breaks THEN 'warning' ELSE 'error' END AS severity,
    CASE WHEN c.bound < clip_at THEN 'tighter' ELSE 'clip' END AS clip_, loss, lr, update_ratio
FROM found e LEFT JOIN clipping c USING (rank, step)
-- a half-precision activation that overflowed just after explains the gradients, not the other way round
WHERE NOT EXISTS (
    SELECT 1
    FROM nonfinite_origin o
    WHERE o.rank = e.rank
      AND o.kind = 'activation'
      AND o.dtype = 'float16'
      AND o.step BETWEEN e.step AND e.step + $coming)
ORDER BY step, rank, optimizer_id
