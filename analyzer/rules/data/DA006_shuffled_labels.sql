/*
code = "DA006"
name = "shuffled-labels"
severity = "error"
phase = "data"
signal = "loss"
message = "{how_}: the loss is {value}, {floor_} is {entropy}, while gradients and updates are healthy. Labels and inputs do not belong together."
fix = "Check the join of inputs and labels: sorted or shuffled apart, off by one, another file."
seeks = [
    """batches: role = 'target' AND phase <> 'eval' AND (loss_op IN ('NllLoss', 'NllLoss2D') \
        OR loss_op = 'MseLoss' OR loss_op LIKE 'BinaryCrossEntropy%')""",
    """optimizer_series: optimizers <= 1 AND (n >= $total - 1 OR history >= $history \
        AND loss > loss_recent_peak AND loss_recent_peak < $part * (loss_median + loss))""",
]
explains = ["loss-off-course", "nothing-learnt", "overfit"]
slack = 20
[say.how_]
loss_jumped = "At step {step} the loss jumped from {loss_median:.3g} and stayed"
nothing_learnt = "In {total} steps nothing was learnt"
[say.floor_]
entropy = "the entropy of the labels"
variance = "the variance of the targets"
[params.low]
value = 0.9
doc = "Loss over label entropy from which nothing is predicted."
source = "convention: of this project, the entropy of the labels is what a constant prediction costs; a tenth less is nothing learnt"
[params.learnt]
value = 0.6
doc = "Loss over entropy below which the model had learnt."
source = "convention: of this project, four tenths of the entropy of the labels gained"
[params.begun]
value = 0.8
doc = "The same where the jump is far beyond the scatter of the loss."
source = "convention: of this project, two tenths of it gained, where the jump itself is clear"
[params.leap]
value = 10.0
unit = "robust sigmas"
doc = "How far; half of it where no later loss comes back into the range of those before."
source = "own history"
[params.least]
value = 5
unit = "steps"
doc = "Steps that it lasts."
source = "convention: of this project, fewer steps are a hard batch or two"
[params.most]
value = 100.0
unit = "nats"
doc = "Loss that wrong labels alone do not make: they cost what the logits lie apart, and those of a sure classifier lie tens apart."
source = "arithmetic: ln of a probability of e^-100: logits that lie a hundred apart"
[params.pairs]
value = 4.0
unit = "variances"
doc = "Mean of squares, beside the variance of the targets, that wrong pairs do not make: two variances, where predictions vary as the targets do."
source = "arithmetic: wrong pairs make two variances; twice as much leaves room for the scatter of a batch"
[params.sure]
value = 120
unit = "steps"
doc = "Steps without learning anything below which it is only a warning."
source = "convention: of this project, networks with a long start, such as transformers in warm-up, need about a hundred steps"
[params.fresh]
value = 30
unit = "steps"
doc = "Steps of the first epoch, without its first ones, from which it can be told that a little is predicted."
source = "arithmetic: the mean of 30 batches has a fifth of the scatter of one"
[params.certain]
value = 4.0
unit = "standard errors"
doc = "How far the loss must be below the entropy of the labels, batch by batch. Then something is learnt. The samples were never seen before."
source = "arithmetic: the normal distribution: four standard errors come by chance once in thirty thousand runs"
[params.alike]
value = 1.25
unit = "times"
doc = "Largest root mean square of the loss's input, over that of the twelve steps before, with which the predictions are as ever. So the labels have changed."
source = "own history"
[params.wild]
value = 2.0
doc = "Loss over the entropy of the labels above which weights were thrown about: then that is why nothing was learnt."
source = "convention: of this project, twice the cost of a constant prediction: the model is worse than knowing nothing"
[params.moved]
value = 0.5
doc = "Sum of updates over the norm of the weights that a run from scratch must have made. It counts with the scales of norms, which begin at 1, or without. Where only the weights beside the embeddings have made it, it is a warning."
source = "convention: of this project, less than half of their own norm is a run that has hardly begun, or one of fine-tuning"
[params.elements]
value = 8
unit = "elements"
doc = "Numbers of a target whose variance can be told."
source = "convention: of this project, fewer scatter too much"
[params.recent]
value = 12
unit = "steps"
doc = "Steps before, from which it is told what is usual."
source = "convention: of this project, the window of the view optimizer_series"
[params.just_now]
value = 3
unit = "steps"
doc = "Steps before, in which an update may have done it."
source = "convention: of this project, an update shows in the next few losses"
[params.rate_now]
value = 5
unit = "steps"
doc = "Steps before, in which the learning rate may have been raised."
source = "convention: of this project, half of the window"
[params.rate_then]
value = 6
unit = "steps"
doc = "Where the steps end from which the usual learning rate is told."
source = "arithmetic: one more than the steps just before"
[params.coming]
value = 9
unit = "steps"
doc = "Steps after the first of the jump, in which it must last."
source = "convention: of this project, with it ten steps"
[params.outlying]
value = 3
unit = "times"
doc = "Largest element of an input over its usual one, from which the batch is an outlier."
source = "own history"
[params.before_it]
value = 6
unit = "steps"
doc = "Steps before a loss on its way back."
source = "convention: of this project, half of the window"
[params.after_it]
value = 5
unit = "steps"
doc = "Steps after it."
source = "arithmetic: with itself as many as before"
[params.all_looks]
value = 6
unit = "steps"
doc = "Losses there must be for that."
source = "arithmetic: the one and five after it"
[params.history]
value = 8
unit = "steps"
doc = "Finite losses before the jump."
source = "convention: of this project, fewer have no scatter to speak of"
[params.entropy]
value = 0.3
unit = "nats"
doc = "Entropy of the labels below which nearly all are of one class."
source = "convention: of this project, two classes of 9 to 1 have 0.33"
[params.part]
value = 0.5
doc = "What counts as a half, of the leap and of the loss."
source = "arithmetic: a half"
[params.low_ever]
value = 0.75
doc = "Loss over entropy that no loss after the jump may fall below."
source = "convention: of this project, three quarters: between what was learnt and nothing"
[params.other_numbers]
value = 0.3
unit = "relative"
doc = "Change of the variance of the targets up to which they are the same ones."
source = "convention: of this project, variances of batches scatter"
[params.other_labels]
value = 0.15
unit = "relative"
doc = "Change of the entropy of the labels up to which they are the same ones."
source = "convention: of this project, half of that: an entropy scatters less"
[params.raised]
value = 1.5
unit = "times"
doc = "Change of the learning rate up to which it is not what changed."
source = "convention: of this project, schedules change by less from step to step"
[params.large_update]
value = 5
unit = "times"
doc = "Update over the usual one, up to which it is not what changed."
source = "own history"
[params.climbed]
value = 0.8
unit = "of the jump"
doc = "Level from which a loss comes back by learning again."
source = "convention: of this project, most of the way up"
[params.back]
value = 0.4
unit = "of the jump"
doc = "Level to which it has come back then."
source = "convention: of this project, less than half of the way"
[params.looks]
value = 4
unit = "looks"
doc = "Looks at the predictions before the jump."
source = "convention: of this project, fewer do not show what is usual"
[params.total]
value = 60
unit = "steps"
doc = "Steps in which nothing was learnt."
source = "convention: of this project, many networks need tens of steps to begin"
[params.stays_low]
value = 0.93
doc = "Least of the loss of the second half over the entropy, where nothing was learnt."
source = "convention: of this project, a little below it is scatter"
[params.stays_low_of_flags]
value = 0.97
doc = "The same of yes-or-no labels: whether somebody clicks is predicted a few hundredths better than by chance."
source = "convention: of this project, less is within what a healthy model of clicks gains"
[params.stays_high]
value = 1.15
doc = "Most of it."
source = "convention: of this project, a wrong pairing costs more than a constant"
[params.first]
value = 5
unit = "steps"
doc = "First steps, in which a loss may be anything."
source = "convention: of this project, weights are still as drawn"
[params.early]
value = 0.3
unit = "of the run"
doc = "Where its beginning ends."
source = "convention: of this project, about a third"
[params.late]
value = 0.7
unit = "of the run"
doc = "Where its end begins."
source = "convention: of this project, about a third"
[params.gained]
value = 0.04
unit = "of the entropy"
doc = "Fall of the loss between the two below which nothing was learnt."
source = "convention: of this project, a few hundredths are scatter"
[params.moves]
value = 1e-4
doc = "Update over weights that a training has."
source = "convention: of this project, a tenth of the usual 1e-3"
[needs]
tables = ["batches", "steps", "param_groups"]
columns = ["batches.loss_op", "steps.loss"]
steps = 10
[doc]
what = "The loss of a classifier is well below the entropy of its labels. Then it jumps to that entropy or above, and stays. Or the mean squared error of a regression is well below the variance of its targets. Then it jumps to that of wrong pairs, and stays. Learning rate, input and label mix do not jump. The predictions of that step are as large as before. Or a classifier, also of yes-or-no labels, has moved far and never got below the entropy. That is only a warning in a run of few steps or on sequences of tokens. It is a warning too where only weights beside the embeddings have moved and every step has the same labels."
why = "The entropy of the labels is the loss of a model that knows nothing of the input."
not_this = "A run that is too short to have learnt, steps in which nothing was updated. A higher learning rate, other inputs, a new label mix, tokens (their entropy is another matter). A loss that gradually falls again. A weak signal: on new samples the loss is below the entropy of the labels by little, but for certain."
source = "Cross entropy of a constant prediction is the entropy of the labels, its mean squared error their variance. Of predictions and targets that have nothing to do with each other the two variances add up."
*/
-- shared
WITH told AS (
    -- what a constant prediction costs: of classes their entropy, of numbers under a mean of squares their
    -- variance
    SELECT rank, step, loss_op IN ('NllLoss', 'NllLoss2D') AS classes, entropy AS floor,
        CASE WHEN len(shape) = 1 THEN 'label' ELSE 'labels' END AS kind
    FROM batches
    WHERE role = 'target' AND entropy IS NOT NULL AND loss_op IN ('NllLoss', 'NllLoss2D') AND phase <> 'eval'
    UNION ALL
    SELECT b.rank, b.step, false, s.sum_sq / s.numel - (s.sum / s.numel) ** 2, 'number'
    FROM batches b
    JOIN tensor_stats s ON s.rank = b.rank AND s.step = b.step AND s.seq = b.seq AND s.tensor_id = b.tensor_id
    WHERE b.role = 'target'
      AND b.loss_op = 'MseLoss'
      AND b.reduction = 'mean'
      AND b.phase <> 'eval'
      AND s.numel >= $elements
      AND s.nan_count + s.inf_count = 0
    UNION ALL
    -- of zeros and ones the entropy of how often a one comes: never less than what it costs to know that
    SELECT rank, step, true, -p * ln(p) - (1 - p) * ln(1 - p), 'flag' FROM (
        SELECT b.rank, b.step, s.sum / s.numel AS p
        FROM batches b
        JOIN tensor_stats s ON s.rank = b.rank
            AND s.step = b.step
            AND s.seq = b.seq
            AND s.tensor_id = b.tensor_id
        WHERE b.role = 'target'
          AND b.loss_op LIKE 'BinaryCrossEntropy%'
          AND b.reduction = 'mean'
          AND NOT coalesce(b.weighted, false)
          AND b.phase <> 'eval'
          AND s.numel >= $elements
          AND s.sum = s.sum_sq AND s.min >= 0 AND s.max <= 1
          AND b.rank NOT IN (SELECT rank FROM batches WHERE role = 'target' AND entropy IS NOT NULL))
    WHERE p > 0 AND p < 1
), mix AS (
    SELECT rank, step, avg(floor) AS batch_entropy, any_value(kind) AS kind FROM told
    WHERE rank IN (SELECT rank FROM told GROUP BY rank HAVING count(DISTINCT kind) = 1) GROUP BY rank, step
), whole AS (
    SELECT rank, median(batch_entropy) AS entropy, any_value(kind) AS kind FROM mix GROUP BY rank
), rows_ AS (
    SELECT o.*, w.entropy, w.kind, m.batch_entropy,
        median(m.batch_entropy) OVER (PARTITION BY o.rank, o.optimizer_id
            ORDER BY n ROWS BETWEEN $recent PRECEDING AND 1 PRECEDING) AS usual_entropy,
        median(m.batch_entropy) OVER ahead AS ahead_entropy,
        median(finite(loss)) OVER ahead AS ahead, min(finite(loss)) OVER ahead AS ahead_low,
            count(finite(loss)) OVER ahead AS ahead_rows,
        -- the variance of a batch of numbers is its own affair
        min(finite(loss) / CASE
            WHEN m.kind = 'number' THEN m.batch_entropy
            ELSE w.entropy
            END) OVER ahead AS ahead_share,
        max(update_ratio) OVER (PARTITION BY o.rank, o.optimizer_id
            ORDER BY n ROWS BETWEEN $just_now PRECEDING AND 1 PRECEDING) AS ratio_now,
        max(lr) OVER (PARTITION BY o.rank, o.optimizer_id
            ORDER BY n ROWS BETWEEN $rate_now PRECEDING AND CURRENT ROW) AS lr_recent,
            max(lr) OVER (PARTITION BY o.rank, o.optimizer_id
                ORDER BY n ROWS BETWEEN $recent PRECEDING AND $rate_then PRECEDING) AS lr_usual,
        -- steps of which no update was measured, because recording was sampled, moved the weights as far as
        -- the others
        avg(update_norm) OVER whole_ * count(*) OVER whole_ / median(weight_norm) OVER whole_ AS moved,
        count(CASE WHEN coalesce(update_norm > 0, true) THEN 1 END) OVER whole_ AS total
    FROM optimizer_series o JOIN mix m ON m.rank = o.rank AND m.step = o.step JOIN whole w ON w.rank = o.rank
    WHERE o.optimizers <= 1
    WINDOW ahead AS (PARTITION BY o.rank, o.optimizer_id
        ORDER BY n ROWS BETWEEN CURRENT ROW AND $coming FOLLOWING),
        whole_ AS (PARTITION BY o.rank, o.optimizer_id)
)
-- shared: predictions
-- what the loss is given in a step, which is computed before its labels are seen, against the twelve
-- steps before
SELECT rank, step, size <= $alike * max(size) OVER past
    AND size >= min(size) OVER past / $alike AS as_ever, count(size) OVER past AS looks
FROM (
    SELECT s.rank, s.step, sqrt(sum(s.sum_sq) / sum(s.numel)) AS size
    FROM tensor_stats s
    JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id
    WHERE t.tensor_name = 'loss:input' AND s.phase = 'loss' AND s.nan_count + s.inf_count = 0
    GROUP BY s.rank, s.step)
WINDOW past AS (PARTITION BY rank ORDER BY step ROWS BETWEEN $recent PRECEDING AND 1 PRECEDING)
-- shared: fresh
-- samples that come for the first time cannot have been memorised. The entropy of few labels is too small
-- by (k - 1) / 2n
SELECT o.rank, count(*) AS batches, avg(d) AS gain, stddev(d) / sqrt(count(*)) AS error FROM (
    SELECT o.rank, o.step,
        o.loss - b.entropy - ((SELECT count(*)
            FROM unnest(b.label_counts) AS u(c)
            WHERE c > 0) - 1) / (2.0 * list_sum(b.label_counts)) AS d,
        row_number() OVER (PARTITION BY o.rank ORDER BY o.step) AS n
    FROM optimizer_series o
    JOIN batches b ON b.rank = o.rank
        AND b.step = o.step
        AND b.role = 'target'
        AND b.entropy IS NOT NULL
        AND b.loss_op = 'NllLoss'
        AND b.reduction = 'mean'
        AND b.phase <> 'eval'
        AND NOT coalesce(b.weighted, false)
    JOIN steps t ON t.rank = o.rank AND t.step = o.step
    WHERE o.optimizers <= 1 AND isfinite(o.loss) AND list_sum(b.label_counts) > 0 AND t.epoch = 0
    UNION ALL
    SELECT r.rank, r.step, r.loss - r.batch_entropy, row_number() OVER (PARTITION BY r.rank ORDER BY r.step)
    FROM rows_ r
    JOIN steps t ON t.rank = r.rank AND t.step = r.step
    WHERE r.kind = 'flag' AND isfinite(r.loss) AND t.epoch = 0
) o WHERE n > $least GROUP BY o.rank HAVING count(*) >= $fresh
-- detector: loss_jumped
WITH tops AS (
    SELECT f.rank, f.tensor_id, f.step, max(f.abs_max) AS top
    FROM batch_fields f
    WHERE f.role IN ('input', 'field') AND f.phase = 'data' AND contains(f.dtype, 'float')
    GROUP BY ALL
), outlying AS (
    SELECT t.rank, t.step
    FROM tops t
    JOIN (SELECT rank, tensor_id, median(top) AS usual
        FROM tops
        GROUP BY rank, tensor_id) u ON u.rank = t.rank
        AND u.tensor_id = t.tensor_id
    WHERE t.top > $outlying * u.usual
), back AS (
    -- how a loss comes back that had jumped: gradually it is learnt again, as of another corpus
    SELECT rank, optimizer_id, n, loss,
        median(loss) OVER (PARTITION BY rank, optimizer_id
            ORDER BY n ROWS BETWEEN $before_it PRECEDING AND 1 PRECEDING) AS just_before,
        median(loss) OVER (PARTITION BY rank, optimizer_id
            ORDER BY n ROWS BETWEEN CURRENT ROW AND $after_it FOLLOWING) AS then_,
        count(*) OVER (PARTITION BY rank, optimizer_id
            ORDER BY n ROWS BETWEEN CURRENT ROW AND $after_it FOLLOWING) AS looks
    FROM rows_ WHERE isfinite(loss)
), jumps AS (
    SELECT * FROM rows_
    WHERE history >= $history
      AND entropy > $entropy
      AND loss > $low * entropy
      AND CASE WHEN kind = 'number' THEN loss < $pairs * entropy
          AND ahead < $pairs * entropy ELSE loss < $most END
      AND (loss_median < $learnt * entropy OR loss_median < $begun * entropy
        AND (loss_peak < $low * entropy
            AND loss > loss_median + $leap * loss_sigma
            OR ahead_low > loss_peak
            AND loss > loss_median + $part * $leap * loss_sigma))
            AND ahead_share > $low_ever
            AND ahead > $low * entropy
            AND ahead_rows >= $least
      AND batch_entropy > $part * entropy
        AND abs(ahead_entropy - usual_entropy) < CASE
            WHEN kind = 'number' THEN $other_numbers
            ELSE $other_labels
            END * usual_entropy
        AND coalesce(lr_recent <= $raised * lr_usual, true)
        AND lr <= $raised * lr_before
        AND coalesce(ratio_now <= $large_update * ratio_median, true)
      -- from one step to the next: a loss that climbs for many steps is driven there by the training itself
      AND loss > loss_recent_peak AND loss_recent_peak < $part * (loss_median + loss)
      -- and one that has touched the entropy just before is unsteady by itself
      AND loss_recent_peak < $low * entropy
      AND (rank, step) NOT IN (SELECT (rank, step) FROM outlying)
      AND NOT coalesce((SELECT arg_min(b.just_before,
          b.n) < loss_median + $climbed * (least(rows_.loss, entropy) - loss_median)
          FROM back b
          WHERE b.rank = rows_.rank
            AND b.optimizer_id = rows_.optimizer_id
            AND b.n > rows_.n + $least
            AND b.looks = $all_looks
            AND b.then_ < loss_median + $back * (least(rows_.loss, entropy) - loss_median)), false)
      -- the same predictions and another loss: that speaks for the labels. Predictions that have changed
      -- speak for the model
      AND coalesce((SELECT p.as_ever AND p.looks >= $looks
          FROM predictions p
          WHERE p.rank = rows_.rank AND p.step = rows_.step),
          false)
      -- what is fed in or asked for has another size from there on
      AND NOT EXISTS (FROM data_changes c
          WHERE c.rank = rows_.rank
            AND c.step BETWEEN rows_.step - 1 AND rows_.step + 1
            AND (kind <> 'label' OR c.role <> 'target'))
      -- a run that had diverged before is lost for a reason of its own
      AND NOT EXISTS (SELECT 1 FROM divergences d WHERE d.rank = rows_.rank AND d.step < rows_.step)
    QUALIFY row_number() OVER (PARTITION BY rank ORDER BY n) = 1
)
SELECT rank, step, loss AS value, entropy, loss_median, 'loss_jumped' AS how_,
    CASE WHEN kind = 'number' THEN 'variance' ELSE 'entropy' END AS floor_
FROM jumps
-- detector: nothing_learnt
WITH tokens AS (
    -- a model that is fed sequences of whole numbers: how often which comes is learnt first, and the rest may
    -- take a run
    SELECT rank FROM (
        SELECT rank, arg_min(contains(dtype, 'int') AND len(shape) >= 2, seq) AS whole
        FROM batches
        WHERE role = 'input' AND phase = 'data'
        GROUP BY rank, step)
    GROUP BY rank HAVING bool_and(whole)
), shares AS (
    -- how far the weights of each kind have come; what is measured of an update are some of its elements
    SELECT rank, avg(drawn_update) * any_value(total) / median(drawn) AS drawn,
        avg(other_update) * any_value(total) / median(other) AS other
    FROM (
        SELECT p.rank, u.step, (SELECT count(*) FROM steps s WHERE s.rank = p.rank AND s.stepped) AS total,
            sqrt(sum(u.sum_sq / u.numel * w.numel) FILTER (p.class_name NOT LIKE '%Norm%')) AS drawn_update,
                sqrt(sum(w.sum_sq) FILTER (p.class_name NOT LIKE '%Norm%')) AS drawn,
            sqrt(sum(u.sum_sq / u.numel * w.numel) FILTER (p.class_name NOT LIKE '%Embedding%'
                AND len(p.shape) >= 2)) AS other_update,
            sqrt(sum(w.sum_sq) FILTER (p.class_name NOT LIKE '%Embedding%' AND len(p.shape) >= 2)) AS other
        FROM parameters p
        JOIN tensor_stats u ON u.rank = p.rank AND u.tensor_id = p.update_id
        JOIN tensor_stats w ON w.rank = p.rank AND w.tensor_id = p.tensor_id AND w.step = u.step
        WHERE p.optimizer_id IS NOT NULL AND u.numel > 0 GROUP BY ALL
    ) GROUP BY rank
), far AS (
    SELECT r.rank, greatest(any_value(r.moved), any_value(h.drawn)) AS moved,
        -- labels that are always the same ones are places in the batch: which of the others belongs to each
        CASE WHEN (SELECT count(DISTINCT b.fingerprint)
            FROM batches b
            WHERE b.rank = r.rank
              AND b.role = 'target'
              AND b.phase <> 'eval') = 1 THEN any_value(h.other) END AS beside_embeddings
    FROM rows_ r LEFT JOIN shares h ON h.rank = r.rank GROUP BY r.rank
), never AS (
    SELECT rank, min(step) AS step, median(finite(loss)) FILTER (n >= $part * total) AS value,
        any_value(entropy) AS entropy, any_value(total) AS total,
        -- many a network needs a hundred steps before it begins to learn
        CASE WHEN any_value(total) < $sure
            OR (SELECT coalesce(f.moved, 0) FROM far f WHERE f.rank = rows_.rank) <= $moved
            OR rank IN (FROM tokens) THEN 'warning' ELSE 'error' END AS severity
    FROM rows_ WHERE total >= $total AND kind IN ('label', 'flag') AND coalesce(update_norm > 0, true)
    GROUP BY rank
    HAVING rank IN (SELECT f.rank FROM far f WHERE f.moved > $moved OR f.beside_embeddings > $moved)
        AND median(finite(loss)) FILTER (n >= $part * total) BETWEEN
            CASE any_value(kind) WHEN 'flag' THEN $stays_low_of_flags ELSE $stays_low END
            * any_value(entropy) AND $stays_high
            * any_value(entropy)
       AND min(finite(loss)) > $low_ever * any_value(entropy)
         AND max(finite(loss)) FILTER (n >= $first) <= $wild * any_value(entropy)
         AND any_value(entropy) > $entropy
       AND least(median(finite(loss)) FILTER (n < $early * total),
           any_value(entropy)) - median(finite(loss)) FILTER (n >= $late * total) < $gained
               * any_value(entropy)
       AND median(update_ratio) > $moves
       AND rank NOT IN (SELECT f.rank FROM fresh f WHERE f.gain < -$certain * f.error)
)
-- it is dated by the beginning of the run: what accounts for it may be seen at any step
SELECT rank, step, value, entropy, severity, total, total AS slack,
    'nothing_learnt' AS how_, 'entropy' AS floor_
FROM never
WHERE rank NOT IN (SELECT rank FROM loss_jumped)
-- together
ORDER BY step, rank
