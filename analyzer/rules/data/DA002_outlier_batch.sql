/*
code = "DA002"
name = "outlier-batch"
severity = "error"
phase = "data"
signal = "abs_max"
message = "Field {tensor} of the batch of step {step} reached {value}. That is {factor} times the largest of all {earlier} batches before it ({largest_before}). In the same step {effect_}."
fix = "Look at the samples of step {step}: an unscaled, corrupt or wrongly joined record. Normalise or clip field {tensor} in the Dataset and assert its range there. To limit what one such batch can do, use clip_grad_norm_."
seeks = ["tensors: kind IN ('input', 'target') AND dtype LIKE '%float%'"]
explains = ["loss-off-course", "exploding-gradients", "lr-too-high", "nonfinite-values", "nonfinite-operator", "dead-relu", "vanishing-gradients", "shuffled-labels", "representation-collapse", "attention-entropy-collapse"]
[say.effect_]
broke = "loss or gradients became non-finite"
loss_left = "the loss left its band: {loss:.4g} after a median of {loss_median:.4g}"
norm_left = "the gradient norm left its band: {gradient_norm:.4g} after a median of {gradient_norm_median:.4g}"
norm_fell = "the gradient norm fell to {gradient_norm:.4g} after a median of {gradient_norm_median:.4g}"
variance_rose = "{statistic} rose from {variance_before:.4g} to {variance:.4g}"
unseen = "neither loss nor gradient norm showed it"
[params.factor]
value = 10.0
unit = "times"
doc = "How far beyond the largest earlier batch the field must reach."
source = "convention: of this project, an order of magnitude: batches of one data set differ by less"
[params.z]
value = 8.0
unit = "robust sigmas"
doc = "How far outside its own logarithmic history: data with heavy tails set their own scale."
source = "convention: of this project, twice the four sigmas that a heavy-tailed history reaches by chance, and more"
[params.earlier]
value = 5
unit = "batches"
doc = "History of the field that a judgement needs."
source = "convention: of this project, fewer batches have no scatter to speak of"
[params.breaking]
value = 1000.0
unit = "times"
doc = "How far a batch must reach to have made float32 numbers overflow; in float16 any outlier can."
source = "convention: of this project, float32 overflows at 3.4e38: a square, a cube and a product of layers each raise a factor of a thousand"
[params.vanished]
value = 0.001
doc = "Share of its median under which a gradient norm has left its band downward. It must be outside its own history too."
source = "convention: of this project, three orders of magnitude: gradient norms of one run scatter by less than two"
[params.extreme]
value = 10000.0
unit = "times"
doc = "How far an input must reach to count by itself, if the batches after it are as before: saturated units hide what it did."
source = "convention: of this project, four orders of magnitude, beyond what any preparation of data makes"
[params.past]
value = 50
unit = "batches"
doc = "Batches before, from which centre and scatter are told."
source = "convention: of this project, more than any rhythm of the data"
[params.after]
value = 5
unit = "batches"
doc = "Batches after it, which must be as before."
source = "convention: of this project, fewer may be large as well"
[params.floor]
value = 0.15
doc = "Least robust sigma of ln(abs-max)."
source = "convention: of this project, a seventh is scatter in any data"
[params.band]
value = 6
unit = "robust sigmas"
doc = "Rise of the loss beside its scatter."
source = "own history"
[params.width]
value = 0.02
unit = "of the loss"
doc = "Least width of that scatter."
source = "convention: of this project, a fiftieth of its level"
[params.beyond]
value = 0.25
unit = "of the largest"
doc = "Rise of the loss beyond its recent peak."
source = "convention: of this project, a quarter"
[params.norm_floor]
value = 0.1
doc = "Least robust sigma of ln(norm)."
source = "convention: of this project, a tenth is scatter in any run"
[params.norm_z]
value = 3
unit = "robust sigmas"
doc = "Rise of the norm."
source = "convention: the three-sigma rule"
[needs]
tables = ["steps", "tensor_stats", "batches"]
steps = 6
[doc]
what = "A floating-point field's largest element leaves all of its own history by an order of magnitude. In the same step loss or gradient norm leave theirs. Or the running variance of a normalisation layer leaves its own upward. Or the element leaves its history by four orders of magnitude for a moment."
why = "One batch on another scale can undo thousands of steps, or overflow them."
not_this = "Fields whose range varies anyway (the spread of the logarithm counts), integer fields. What another model put out with a graph, and smaller outliers that neither loss nor gradients nor running statistics notice."
source = "Own history, robust: median and MAD of ln(abs-max), the maximum of all earlier batches, and two agreeing signals."
*/
-- shared
WITH fields AS (
    SELECT s.rank, s.tensor_id, s.step, s.microbatch, s.seq, s.phase, s.tensor, s.module, s.shape, s.abs_max,
        s.min, s.max,
        log_size(s.abs_max) AS size, coalesce(b.role = 'input', s.kind = 'input') AS used,
        concat_ws('/', s.kind, s.dtype, len(b.shape), b.shape[2:]) AS class
    FROM stats s
    LEFT JOIN batches b ON b.rank = s.rank AND b.step = s.step AND b.seq = s.seq AND b.tensor_id = s.tensor_id
    WHERE s.kind IN ('input', 'target')
      AND s.phase IN ('data', 'loss')
      AND s.dtype LIKE '%float%'
      AND s.numel > 0
      -- what another part of the model has computed in this step is no data: whatever made it large lies
      -- before it
      AND NOT (s.kind = 'input' AND coalesce(s.requires_grad, false) AND EXISTS (
          SELECT 1
          FROM tensor_stats e
          JOIN tensors a ON a.rank = e.rank AND a.tensor_id = e.tensor_id AND a.kind = 'activation'
          WHERE e.rank = s.rank
            AND e.step = s.step
            AND e.microbatch = s.microbatch
            AND e.seq < s.seq
            AND e.phase = 'forward'))
), judged AS (
    -- against the same field of the batches before
    SELECT *, count(abs_max) OVER before AS earlier, max(abs_max) OVER before AS largest_before,
        max(abs_max) OVER after_ AS largest_after,
        median(size) OVER past AS centre, sigma_of(mad(size) OVER past) AS spread
    FROM fields
    WINDOW
        before AS (PARTITION BY rank, tensor_id
            ORDER BY step, seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
        past AS (PARTITION BY rank, tensor_id
            ORDER BY step, seq ROWS BETWEEN $past PRECEDING AND 1 PRECEDING),
        after_ AS (PARTITION BY rank, tensor_id
            ORDER BY step, seq ROWS BETWEEN 1 FOLLOWING AND $after FOLLOWING)
    UNION ALL
    -- against whatever of the same kind, dtype and sample shape went into the model before: a batch that the
    -- script
    -- changed between loader and model is another tensor there
    SELECT *, count(abs_max) OVER before AS earlier, max(abs_max) OVER before AS largest_before,
        max(abs_max) OVER after_ AS largest_after,
        median(size) OVER past AS centre, sigma_of(mad(size) OVER past) AS spread
    FROM fields WHERE used
    WINDOW
        before AS (PARTITION BY rank, class
            ORDER BY step, seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
        past AS (PARTITION BY rank, class ORDER BY step, seq ROWS BETWEEN $past PRECEDING AND 1 PRECEDING),
        after_ AS (PARTITION BY rank, class ORDER BY step, seq ROWS BETWEEN 1 FOLLOWING AND $after FOLLOWING)
), outliers AS (
    SELECT *, abs_max / largest_before AS factor,
        coalesce(used
            AND abs_max > $extreme * largest_before
            AND largest_after < $factor * largest_before, false) AS extreme
            FROM judged
    WHERE earlier >= $earlier AND largest_before > 0 AND abs_max > $factor * largest_before
      AND robust_z(size, centre, spread, $floor) > $z
    QUALIFY row_number() OVER (PARTITION BY rank, step, seq, tensor_id ORDER BY factor) = 1
)
-- detector: outlier_batch
WITH variances AS (
    -- batch norm hides the outlier from loss and gradients; every evaluation to come is normalised with what
    -- it left behind
    SELECT s.rank, s.tensor_id, s.step, s.tensor, s.abs_max AS variance,
        max(s.abs_max) OVER before AS largest, count(*) OVER before AS rows_before,
        max(s.step) OVER before AS step_before
    FROM stats s
    WHERE s.kind = 'buffer'
      AND s.tensor LIKE '%running_var'
      AND isfinite(s.abs_max)
      AND s.rank IN (SELECT rank FROM outliers)
    WINDOW before AS (PARTITION BY s.rank, s.tensor_id
        ORDER BY s.step, s.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
), swollen AS (
    -- where not every step was looked at, the next look still shows it
    SELECT rank, step, min(step_before) AS step_before, arg_max(tensor, variance / largest) AS statistic,
        arg_max(variance, variance / largest) AS variance,
        arg_max(largest, variance / largest) AS variance_before
    FROM variances
    WHERE rows_before >= $earlier AND largest > 0 AND variance > $factor * largest
    GROUP BY rank, step
), effects AS (
    SELECT rank, step,
        bool_or(is_nonfinite(loss) OR is_nonfinite(norm)) AS broke,
        bool_or(coalesce(isfinite(loss)
            AND loss > loss_median + $band * greatest(loss_sigma, $width * abs(loss_median))
            AND loss > loss_recent_peak + $beyond * abs(loss_recent_peak), false)) AS loss_left,
        bool_or(coalesce(isfinite(norm) AND norm > 2 * norm_recent_peak
            AND robust_z(log_size(norm), norm_log_median, norm_log_sigma, $norm_floor) > $norm_z,
                false)) AS norm_left,
        -- inputs so large that every unit is sure of itself: what is right costs nothing at all
        bool_or(coalesce(norm < $vanished * norm_median
            AND (norm = 0 OR robust_z(log_size(norm), norm_log_median, norm_log_sigma, $norm_floor) < -$z),
                false)) AS norm_fell,
        max(loss) AS loss, max(loss_median) AS loss_median, max(norm) AS norm, max(norm_median) AS norm_median
    FROM optimizer_series GROUP BY rank, step
)
SELECT o.rank, o.step, o.microbatch, o.seq, o.phase, coalesce(o.module, '') AS module,
    coalesce(b.field, o.tensor) AS tensor,
    o.abs_max AS value, o.largest_before, o.factor, o.earlier, o.min, o.max, o.shape, b.fingerprint,
    e.loss, e.loss_median, e.norm AS gradient_norm, e.norm_median AS gradient_norm_median,
    v.statistic, v.variance, v.variance_before,
    CASE WHEN e.broke THEN 'broke' WHEN e.loss_left THEN 'loss_left' WHEN e.norm_left THEN 'norm_left'
        WHEN e.norm_fell THEN 'norm_fell' WHEN v.variance IS NOT NULL THEN 'variance_rose'
        ELSE 'unseen' END AS effect_
FROM outliers o
JOIN effects e ON e.rank = o.rank AND e.step = o.step
LEFT JOIN swollen v ON v.rank = o.rank AND v.step >= o.step AND v.step_before < o.step
LEFT JOIN nonfinite_origin f ON f.rank = o.rank AND f.step = o.step
LEFT JOIN batches b ON b.rank = o.rank AND b.step = o.step AND b.seq = o.seq AND b.tensor_id = o.tensor_id
WHERE e.loss_left
  OR e.norm_left
  OR e.norm_fell
  OR o.extreme
  OR v.variance IS NOT NULL
  OR (e.broke AND (o.factor >= $breaking OR f.dtype = 'float16'))
-- together
ORDER BY step, rank, seq
