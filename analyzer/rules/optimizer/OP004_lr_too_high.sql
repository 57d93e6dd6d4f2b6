/*
code = "OP004"
name = "lr-too-high"
severity = "error"
phase = "optimizer"
signal = "update_ratio"
message = "The learning rate is too high {when_}. At step {step} one update changed the weights by {value} of their norm (lr {lr}, {optimizer}). The loss went from {loss_before} to {after_}."
fix = "Lower the learning rate by 3 to 10 times or warm it up over more steps. An update ratio near 1e-3 is usual."
seeks = ["optimizer_series: isfinite(update_ratio) AND update_ratio > $ratio"]
explains = ["exploding-gradients", "loss-off-course", "nonfinite-values", "dead-relu", "saturated-activation", "gradients-vanish", "plateau", "nonfinite-operator", "shuffled-labels", "representation-collapse", "attention-entropy-collapse"]
slack = 1
[say.when_]
from_the_first_steps = "from the first steps on"
at_the_peak = "where the schedule has its peak"
[say.after_]
higher = "{loss_after}"
nonfinite = "non-finite"
[params.ratio]
value = 0.1
doc = "Norm of an update over norm of the weights; usual is about 1e-3."
source = "convention: a hundred times the ratio of 1e-3 that is the usual rule of thumb (Karpathy, CS231n notes, ratio of updates to weights)"
[params.replaced]
value = 0.3
doc = "The same where the loss jumps at once and the run never gets below its first loss."
source = "convention: of this project, an update of that size replaces weights rather than tunes them"
[params.nothing]
value = 0.85
doc = "Loss in the second half of the run over the first loss that counts as having learnt nothing."
source = "convention: of this project, a model that learns loses more than a seventh of its first loss by then"
[params.rise]
value = 2.0
unit = "times"
doc = "How far the loss must stay above its first value."
source = "own history"
[params.soon]
value = 40
unit = "steps"
doc = "Steps after an update in which the loss shows what it did."
source = "own history"
[params.next]
value = 10
unit = "steps"
doc = "The first of them."
source = "own history"
[params.settled]
value = 3
unit = "steps"
doc = "Steps after which a jump may be over."
source = "own history"
[params.first]
value = 5
unit = "steps"
doc = "First steps of a run."
source = "own history"
[params.early]
value = 10
unit = "steps"
doc = "Steps in which an update counts as one of the first."
source = "own history"
[params.breaking]
value = 3
unit = "times"
doc = "Rise over the first loss before it breaks, from which the update counts. Losses that scatter up to there show nothing."
source = "own history"
[params.at_once]
value = 5
unit = "times rise"
doc = "Rise of the next ten losses that needs no look at the rest."
source = "own history"
[params.worse]
value = 1.2
unit = "times"
doc = "Level over the first loss that is worse than knowing nothing."
source = "own history"
[params.guess]
value = 0.1
doc = "Distance from ln(classes) within which a first loss is that of equal probabilities, as a share of it."
source = "arithmetic: the cross entropy of equal probabilities is ln(classes); first outputs of any usual size add less than a tenth"
[params.half_known]
value = 20
unit = "steps"
doc = "Finite losses that tell how the training as a whole went."
source = "own history"
[params.jump]
value = 1.5
unit = "times"
doc = "Jump of the loss in the first steps."
source = "own history"
[params.several]
value = 10
unit = "times"
doc = "Rise over the first loss where several optimizers play against each other."
source = "own history"
[params.enormous]
value = 10
unit = "times"
doc = "Gradient norm over weight norm that makes a large update at any learning rate, without an optimizer that scales it."
source = "own history"
[params.raised]
value = 5
unit = "times"
doc = "How far a rate was raised later, while the loss was still as before."
source = "own history"
[params.at_peak]
value = 0.95
unit = "of the peak"
doc = "Learning rate that is at the schedule's peak."
source = "arithmetic"
[params.warm]
value = 1.5
unit = "times"
doc = "How far the rate had been raised on the way there."
source = "own history"
[params.warm_up]
value = 60
unit = "steps"
doc = "How far back that way is looked at."
source = "own history"
[needs]
tables = ["steps", "param_groups"]
columns = ["param_groups.update_norm", "steps.loss"]
steps = 3
[doc]
what = "In the first steps, or at the top of a warm-up, updates exceed a tenth of the weights' norm. After them the loss rises for good or breaks. Or, having jumped, it never gets below where it began."
why = "A step may leave the region in which the gradient is valid. Then the loss gets worse, and the next gradient larger."
not_this = "Large first updates after which the loss falls, losses that jump and come back. Gradients that are themselves enormous (exploding-gradients), a sudden jump of the schedule (lr-spike)."
source = "Update ratio: a usual value of 1e-3 is long-standing practice; the judgement is the loss."
*/
-- detector: first_steps
WITH ignorant AS (
    -- a first loss of ln(classes) is that of knowing nothing, and not low by chance
    SELECT DISTINCT b.rank
    FROM batches b
    JOIN (SELECT rank, arg_min(loss, n) AS loss FROM optimizer_series GROUP BY rank) f ON f.rank = b.rank
    WHERE b.classes > 1 AND abs(f.loss - ln(b.classes)) <= $guess * ln(b.classes)
), ahead AS (
    SELECT *,
        first_value(finite(loss)) OVER whole AS loss_first, first_value(norm) OVER whole AS norm_first,
            first_value(weight_norm) OVER whole AS weight_first,
        median(finite(loss)) OVER soon AS soon_median, count(finite(loss)) OVER soon AS soon_rows,
            max(finite(loss)) OVER soon AS soon_high,
        median(finite(loss)) OVER next_ten AS next_median, min(finite(loss)) OVER rest AS rest_low,
            bool_or(is_nonfinite(loss)) OVER soon AS breaks
    FROM optimizer_series
    WINDOW
        soon AS (PARTITION BY rank, optimizer_id ORDER BY n ROWS BETWEEN 1 FOLLOWING AND $soon FOLLOWING),
        next_ten AS (PARTITION BY rank, optimizer_id ORDER BY n ROWS BETWEEN 1 FOLLOWING AND $next FOLLOWING),
        rest AS (PARTITION BY rank, optimizer_id
            ORDER BY n ROWS BETWEEN $settled FOLLOWING AND UNBOUNDED FOLLOWING),
        whole AS (PARTITION BY rank, optimizer_id
            ORDER BY n ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
), all_of_it AS (
    SELECT rank, optimizer_id, count(finite(loss)) FILTER (n >= 1) AS rows_,
        median(finite(loss)) FILTER (n >= 1) AS median_,
            max(finite(loss)) FILTER (n BETWEEN 1 AND $first) AS jump,
        median(finite(loss)) FILTER (2 * n >= total) AS late_median,
        sigma_of(mad(change) FILTER (n >= 1)) / sqrt(2) AS scatter
    FROM (SELECT *,
        finite(loss) - lag(finite(loss)) OVER (PARTITION BY rank, optimizer_id ORDER BY n) AS change,
        count(*) OVER (PARTITION BY rank, optimizer_id) AS total
        FROM optimizer_series)
    GROUP BY ALL
)
SELECT rank, step, optimizer_id, optimizer, update_ratio AS value, lr, loss_first AS loss_before,
    soon_high AS loss_after,
    CASE WHEN breaks AND coalesce(soon_high, 0) <= loss_first THEN 'nonfinite' ELSE 'higher' END AS after_,
    'from_the_first_steps' AS when_, update_norm, weight_norm, norm
FROM ahead a JOIN all_of_it t USING (rank, optimizer_id)
WHERE n < $early AND isfinite(update_ratio) AND update_ratio > $ratio AND loss_first > 0
  AND ((breaks AND (soon_high > $breaking * loss_first OR update_ratio > 1))
    OR (soon_rows >= $next
        AND (next_median > $at_once * $rise * loss_first
            OR (soon_median > $rise * loss_first AND rest_low > $worse * loss_first)))
    -- (one first loss that is low by chance tells little where losses scatter as much)
    -- it jumps at once, and the training as a whole is worse than knowing nothing
    OR (n < $first
        AND t.rows_ >= $half_known
        AND t.jump > $jump * loss_first
        AND t.median_ > $worse * loss_first
        AND (EXISTS (FROM ignorant i WHERE i.rank = a.rank)
            OR NOT coalesce(t.median_ < least(loss_first + 2 * t.scatter, $breaking * loss_first), false)))
    -- or comes back to knowing nothing and stays there: what there was to start from has been replaced
    OR (n < $first
        AND t.rows_ >= $soon
        AND update_ratio > $replaced
        AND t.jump > $jump * loss_first
        AND t.late_median > $nothing * loss_first
        AND NOT coalesce(t.jump < $several * loss_first
            AND t.median_ < least(loss_first + 2 * t.scatter, $breaking * loss_first)
            AND t.median_ > loss_first, false)))
  AND (optimizers <= 1 OR breaks OR soon_median > $several * loss_first)
  -- an enormous gradient makes a large update at any learning rate (Adam and its kin do not care)
  AND (eps IS NOT NULL
      OR norm_first IS NULL
      OR weight_first IS NULL
      OR norm_first <= $enormous * weight_first)
  -- a rate that was raised later, while the loss was still as before, is what did it
  AND NOT EXISTS (
      SELECT 1 FROM ahead raised
      WHERE raised.rank = a.rank
        AND raised.optimizer_id = a.optimizer_id
        AND raised.n BETWEEN a.n + 1 AND a.n + $soon
        AND raised.lr > $raised * a.lr
        AND NOT EXISTS (SELECT 1
            FROM ahead r
            WHERE r.rank = a.rank AND r.optimizer_id = a.optimizer_id AND r.n BETWEEN a.n + 1 AND raised.n
            AND coalesce(NOT r.loss <= $rise * r.loss_first, true)))
-- detector: peak
SELECT d.rank, d.step, d.optimizer_id, any_value(s.optimizer) AS optimizer, max(s.update_ratio) AS value,
    d.lr, d.loss_median AS loss_before, d.rest_median AS loss_after, 'higher' AS after_,
    'at_the_peak' AS when_, max(s.update_norm) AS update_norm, max(s.weight_norm) AS weight_norm, d.norm
FROM divergences d
JOIN optimizer_series s ON s.rank = d.rank
    AND s.optimizer_id = d.optimizer_id
    AND s.n BETWEEN d.n - $first AND d.n + $next
WHERE isfinite(s.update_ratio)
  AND s.update_ratio > $ratio
  AND d.lr >= $at_peak * greatest(d.lr_peak_ever, d.lr)
  AND d.lr > $warm * (SELECT min(lr)
      FROM optimizer_series q
      WHERE q.rank = d.rank AND q.optimizer_id = d.optimizer_id AND q.n BETWEEN d.n - $warm_up AND d.n)
GROUP BY ALL
-- together
WHERE NOT EXISTS (FROM range_tests r
    WHERE r.rank = found.rank
      AND r.optimizer_id = found.optimizer_id
      AND found.step BETWEEN r.first_step AND r.last_step)
ORDER BY step, rank, optimizer_id
