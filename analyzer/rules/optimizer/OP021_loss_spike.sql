/*
code = "OP021"
name = "loss-spike"
severity = "error"
is = ["loss-off-course"]
phase = "loss"
signal = "loss"
message = "The loss left its band at step {step}: {value} after a median of {loss_median} in the {history} steps before{gradients_}; {batch_}{after_}."
fix = "Look at what changed first at step {step}. It may be the batch (its fingerprint is recorded), the learning rate, or the update before it. Clipping the gradient norm limits the damage of one step."
seeks = [
    "optimizer_series: history >= $history AND isfinite(loss) AND loss > $peak * loss_peak AND loss > loss_median + $z * greatest(loss_sigma, $least_spread * abs(loss_median))",
]
explains = []
generic = true
reach = 5
slack = 1
[say.gradients_]
left_theirs = ", with a gradient norm of {norm_soon} after {norm_median}"
[say.batch_]
held_far_values = "the batch held values far out in data whose range varies widely, and "
[say.after_]
came_back = "it came back within twenty steps"
mostly_gone = "most of the rise was gone within twenty steps"
record_ends = "the record ends before it came back"
[params.z]
value = 8.0
unit = "robust sigmas"
doc = "Outside its own history, on the linear and on the logarithmic scale."
source = "own history"
[params.level]
value = 3.0
unit = "times"
doc = "Above the median of its own last 30 steps."
source = "own history"
[params.history]
value = 10
unit = "steps"
doc = "Finite losses that a judgement needs."
source = "convention: of this project, fewer losses have no scatter to speak of"
[params.beyond]
value = 20.0
unit = "times"
doc = "Above everything the loss has ever been: a leap that is no other task, and a spike also where only nine tenths of it are won back."
source = "own history"
[params.record]
value = 2.0
unit = "times"
doc = "A batch whose largest element exceeds all before by this much explains a spike by the data. So does one that is two sigmas out in data whose range varies widely. It is then a warning."
source = "own history"
[params.hard]
value = 10.0
unit = "times"
doc = "Rise, summed over the elements of the batch, in losses of the first steps. Up to it a sample or two may be the reason. Cross entropy of one hard sample is four times that of a guess, seldom more."
source = "convention: of this project, one hard sample costs about four times what a guess costs, seldom ten times"
[params.data_past]
value = 100
unit = "batches"
doc = "Batches before that say how large the data are."
source = "own history"
[params.varied]
value = 0.3
unit = "of ln"
doc = "Scatter of the batches' largest values that is wide."
source = "own history"
[params.lesson]
value = 6
unit = "steps"
doc = "Steps of one size before and after a change of size."
source = "own history"
[params.least_spread]
value = 0.05
unit = "of the median"
doc = "Least scatter that a loss is taken to have."
source = "own history"
[params.soon]
value = 20
unit = "steps"
doc = "Steps in which a loss that spiked comes back."
source = "own history"
[params.back]
value = 3.0
unit = "robust sigmas"
doc = "Where the loss is back."
source = "own history"
[params.back_rows]
value = 9
unit = "steps"
doc = "Steps that tell whether it came back."
source = "own history"
[params.peak]
value = 1.5
unit = "times"
doc = "Above the highest loss of its history."
source = "own history"
[params.visible]
value = 0.1
unit = "of the first loss"
doc = "Rise that a curve shows."
source = "own history"
[params.norm_z]
value = 5
unit = "robust sigmas"
doc = "How far the gradient norm leaves its own band."
source = "own history"
[params.norm_floor]
value = 0.15
unit = "of ln"
doc = "Least scatter that a gradient norm is taken to have."
source = "own history"
[params.norm_level]
value = 3
unit = "times"
doc = "Gradient norm above its own median."
source = "own history"
[params.log_floor]
value = 0.1
unit = "of ln"
doc = "Least scatter that the logarithm of a loss is taken to have."
source = "own history"
[params.leaps_past]
value = 200
unit = "steps"
doc = "How far back a leap makes another one usual."
source = "own history"
[params.settled]
value = 5
unit = "steps"
doc = "First steps of a run, which are no leap."
source = "own history"
[params.apart]
value = 3
unit = "steps"
doc = "Steps between two leaps."
source = "own history"
[params.alike]
value = 0.3
unit = "of the rise"
doc = "Rise of an earlier leap that is like this one."
source = "own history"
[params.left]
value = 0.1
unit = "of the rise"
doc = "What may be left of a leap beyond everything that there has ever been."
source = "own history"
[params.young]
value = 30
unit = "steps"
doc = "First steps of a training, and those after a spike among them that tell whether it did harm."
source = "convention: of this project, the window of the view optimizer_series"
[params.end]
value = 10
unit = "steps"
doc = "Last steps of the run, whose median is its end."
source = "convention: of this project, a median of ten is no accident"
[params.learnt]
value = 0.5
unit = "of the loss"
doc = "End of the run beside the loss before a spike in the first steps: the training learnt most after it."
source = "arithmetic: half of it"
[needs]
tables = ["steps"]
columns = ["steps.loss"]
steps = 12
[doc]
what = "Loss and gradient norm leave their own bands at the same step, far beyond their usual scatter. The loss comes back within twenty steps. It comes back nine tenths of the way, where it had left all its earlier values by far. In a log that was imported without gradient norms it is a warning. There the loss must leave all its earlier values. It is a warning too in the first steps of a run that learns most of what it learns after it."
why = "Something hit the training once: a batch, a rate, an unlucky update."
not_this = "Losses that scatter widely anyway or have made such leaps before. Small losses that scatter by a factor near the floor. One batch with a hard sample or two (gone with the next batch). Losses of several optimizers that play against each other unless they leave everything ever seen. Rises for good (divergence), the first steps of inputs of another size that stay (a curriculum). Steps in which a target network takes over the weights of the model. A search for the learning rate at which the training breaks."
source = "Own history, robust: median and MAD of loss and ln(loss), of ln(norm), over the 30 steps before."
*/
-- shared
WITH records AS (
    -- batches with the largest values so far: where outlier-batch does not fire the data have heavy tails
    SELECT rank, step FROM (
        SELECT s.rank, s.step, s.abs_max, max(s.abs_max) OVER before AS largest_before,
            median(log_size(s.abs_max)) OVER before AS centre,
                sigma_of(mad(log_size(s.abs_max)) OVER before) AS spread
        FROM stats s WHERE s.kind IN ('input', 'target') AND s.phase <> 'eval' AND s.dtype LIKE '%float%'
        WINDOW before AS (PARTITION BY s.rank, s.tensor_id
            ORDER BY s.step, s.seq ROWS BETWEEN $data_past PRECEDING AND 1 PRECEDING))
    WHERE abs_max > $record * largest_before OR (spread > $varied AND ln(abs_max) > centre + 2 * spread)
    GROUP BY rank, step
), shapes AS (
    SELECT rank, step, string_agg(DISTINCT shape::VARCHAR, ' ' ORDER BY shape::VARCHAR) AS shape
    FROM batches
    WHERE role = 'input' AND phase = 'data'
    GROUP BY rank, step
), lessons AS (
    -- longer sequences or larger pictures from this step on, after others of one size: another lesson of a
    -- curriculum
    SELECT rank, step FROM (
        SELECT rank, step, shape, count(DISTINCT shape) OVER past AS kinds_before,
            any_value(shape) OVER past AS shape_before, count(DISTINCT shape) OVER next_ AS kinds_after,
            count(*) OVER past AS n_before,
            count(*) OVER next_ AS n_after
        FROM shapes
        WINDOW past AS (PARTITION BY rank ORDER BY step ROWS BETWEEN $lesson PRECEDING AND 1 PRECEDING),
            next_ AS (PARTITION BY rank ORDER BY step ROWS BETWEEN CURRENT ROW AND $lesson - 1 FOLLOWING))
    WHERE n_before = $lesson
      AND n_after = $lesson
      AND kinds_before = 1
      AND kinds_after = 1
      AND shape <> shape_before
), sizes AS (
    SELECT rank, step,
        coalesce(sum(list_product(list_transform(shape, lambda n: n::DOUBLE))) FILTER (role = 'target'),
            max(batch_size)) AS samples
    FROM batches WHERE phase <> 'eval' GROUP BY rank, step
), ahead AS (
    SELECT *, lead(loss) OVER (PARTITION BY rank, optimizer_id ORDER BY n) AS loss_next,
        greatest(loss_sigma, $least_spread * abs(loss_median)) AS spread,
        max(finite(norm)) OVER here AS norm_soon,
            count(norm) OVER (PARTITION BY rank, optimizer_id) > 0 AS has_norms,
        min(finite(loss)) OVER soon AS lowest_soon, count(*) OVER soon AS soon_rows,
        coalesce(n < $young AND max(n) OVER whole > n + $young
            AND median(CASE WHEN from_end <= $end THEN finite(loss) END) OVER whole < $learnt * loss_median,
            false) AS early_
    FROM (SELECT *, row_number() OVER (PARTITION BY rank, optimizer_id ORDER BY n DESC) AS from_end
        FROM optimizer_series)
    WINDOW
        whole AS (PARTITION BY rank, optimizer_id),
        here AS (PARTITION BY rank, optimizer_id ORDER BY n ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING),
        soon AS (PARTITION BY rank, optimizer_id ORDER BY n ROWS BETWEEN 1 FOLLOWING AND $soon FOLLOWING)
)
-- detector: left_its_band
SELECT a.*
FROM ahead a
LEFT JOIN sizes z ON z.rank = a.rank AND z.step = a.step
WHERE a.history >= $history AND isfinite(a.loss)
  AND NOT EXISTS (FROM range_tests t
      WHERE t.rank = a.rank
        AND t.optimizer_id = a.optimizer_id
        AND a.step BETWEEN t.first_step AND t.last_step)
  AND NOT EXISTS (FROM lessons l WHERE l.rank = a.rank AND l.step BETWEEN a.step - $history AND a.step)
  -- the weights of a target network were replaced by the model's: from here on the targets are others
  AND NOT EXISTS (FROM target_syncs t WHERE t.rank = a.rank AND t.step BETWEEN a.step - 1 AND a.step)
  AND a.loss > a.loss_median + $z * a.spread
  -- a hard sample or two, in a batch of a model that has all others right, and gone with the next batch
  AND NOT coalesce((a.loss - a.loss_median) * z.samples < $hard * a.loss_start
      AND a.loss_next < a.loss_median + $back * a.spread, false)
  AND a.loss > $peak * a.loss_peak AND a.loss - a.loss_median > $visible * a.loss_start
  AND CASE
      WHEN a.has_norms THEN robust_z(log_size(a.norm_soon), a.norm_log_median, a.norm_log_sigma,
          $norm_floor) > $norm_z
      AND a.norm_soon > $norm_level * a.norm_median
        -- without gradients nothing but the loss can speak: it must leave all it has been, and come back
        ELSE (SELECT options LIKE '%"imported"%' FROM runs)
            AND a.history >= 2 * $history
            AND a.loss > a.loss_median + 2 * $z * a.spread
            AND a.loss > $peak * a.loss_size_ever
            AND a.loss_low_ever > 0
            AND a.lowest_soon < a.loss_median + $back * a.spread END
  AND CASE WHEN a.optimizers <= 1 AND a.loss_low_ever > 0
        THEN a.loss > $level * a.loss_median
            AND robust_z(log_size(a.loss), a.loss_log_median, a.loss_log_sigma, $log_floor) > $z
        ELSE a.loss > $level * a.loss_size_ever
            AND coalesce(a.norm_soon > 2 * a.norm_peak_ever, NOT a.has_norms) END
  -- a series that has made such leaps before is made that way
  AND (SELECT count(*)
      FROM optimizer_series q
      WHERE q.rank = a.rank
        AND q.optimizer_id = a.optimizer_id
        AND q.n BETWEEN greatest(a.n - $leaps_past, $settled) AND a.n - $apart
        AND isfinite(q.loss)
          AND q.loss > 2 * q.loss_median
          AND q.loss - q.loss_median > $alike * (a.loss - a.loss_median)) < 2
  AND (a.lowest_soon < a.loss_median + $back * a.spread OR a.soon_rows < $back_rows
        OR a.loss > $beyond * a.loss_size_ever
          AND a.lowest_soon < a.loss_median + $left * (a.loss - a.loss_median)
            AND NOT EXISTS (FROM divergences d
                WHERE d.rank = a.rank
                  AND d.optimizer_id = a.optimizer_id
                  AND d.step BETWEEN a.step - 1 AND a.step + 1))
-- together
SELECT a.rank, a.step, NULL::VARCHAR AS module, NULL::VARCHAR AS tensor, a.loss AS value, a.loss_median,
    a.loss_sigma, a.loss_peak, a.history,
    a.norm_soon, a.norm_median, a.lr, a.update_ratio, a.optimizer_id, b.fingerprint,
    CASE WHEN r.step IS NULL AND a.has_norms AND NOT a.early_ THEN 'error' ELSE 'warning' END AS severity,
    CASE WHEN a.has_norms THEN 'left_theirs' END AS gradients_,
    CASE WHEN r.step IS NOT NULL THEN 'held_far_values' END AS batch_,
    CASE WHEN a.lowest_soon < a.loss_median + $back * a.spread THEN 'came_back'
        WHEN a.soon_rows >= $back_rows THEN 'mostly_gone' ELSE 'record_ends' END AS after_
FROM found a
LEFT JOIN (SELECT rank, step, min(fingerprint) AS fingerprint
    FROM batches
    WHERE role <> 'target'
    GROUP BY rank, step) b ON b.rank = a.rank
    AND b.step = a.step
LEFT JOIN records r ON r.rank = a.rank AND r.step = a.step
ORDER BY severity, a.step, a.rank, a.optimizer_id
