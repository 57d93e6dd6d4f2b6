/*
code = "DA006"
name = "shuffled-labels"
severity = "error"
phase = "data"
signal = "loss"
message = "{how_}: the loss is {value}, {floor_} is {entropy}, while gradients and updates are healthy: labels and inputs do not belong together."
fix = "Check the join of inputs and labels: sorted or shuffled apart, off by one, another file."
explains = ["divergence", "loss-spike", "plateau", "underfit", "overfit"]
slack = 20
[params.low]
value = 0.9
doc = "Loss over label entropy from which on nothing is predicted."
[params.learnt]
value = 0.6
doc = "Loss over entropy below which the model had learnt."
[params.begun]
value = 0.8
doc = "The same where the jump is far beyond the scatter of the loss."
[params.leap]
value = 10.0
unit = "robust sigmas"
doc = "How far; half of it where no later loss comes back into the range of those before."
[params.least]
value = 5
unit = "steps"
doc = "Steps that it lasts."
[params.most]
value = 100.0
unit = "nats"
doc = "Loss that wrong labels alone do not make: they cost what the logits lie apart, and those of a sure classifier lie tens apart."
[params.pairs]
value = 4.0
unit = "variances"
doc = "Mean of squares, beside the variance of the targets, that wrong pairs do not make: two variances, where predictions vary as the targets do."
[params.sure]
value = 120
unit = "steps"
doc = "Steps without learning anything below which it is only a warning."
[params.fresh]
value = 30
unit = "steps"
doc = "Steps of the first epoch, without its first ones, from which it can be told that a little is predicted."
[params.certain]
value = 4.0
unit = "standard errors"
doc = "How far the loss must lie below the entropy of the labels, batch by batch, on samples that were never seen before, for something to be learnt."
[params.alike]
value = 1.25
unit = "times"
doc = "Largest root mean square of what the loss is given, over that of the twelve steps before, with which the predictions are as ever: so the labels have changed."
[params.wild]
value = 2.0
doc = "Loss over the entropy of the labels above which weights were thrown about: then that is why nothing was learnt."
[params.moved]
value = 0.5
doc = "Sum of updates over the norm of the weights that a run from scratch must have made, with the scales of norms, which begin at 1, or without; where only the weights beside the embeddings have, it is a warning."
[needs]
tables = ["batches", "steps", "param_groups"]
columns = ["batches.loss_op", "steps.loss"]
steps = 10
[doc]
what = "A classifier whose loss jumps from well below the entropy of its labels to that entropy or above and stays, or a regression whose mean of squares jumps from well below the variance of its targets to that of wrong pairs and stays, without a jump of the learning rate, the input or the label mix, while the predictions of that step are as large as before; or a classifier that has moved far and never got below it (in a run of few steps, on sequences of tokens, or where only the weights beside the embeddings have moved and the labels are the same ones in every step, only a warning)."
why = "The entropy of the labels is the loss of a model that knows nothing of the input."
not_this = "A run that is too short to have learnt, steps in which nothing was updated, a higher learning rate, other inputs, a new label mix, tokens (their entropy is another matter), a loss that is learnt down again by and by, a weak signal: a loss that lies below the entropy of the labels by little, but for certain, while the samples are new."
source = "Cross entropy of a constant prediction is the entropy of the labels, its mean squared error their variance; of predictions and targets that have nothing to do with each other the two variances add up."
*/
WITH told AS (
    -- what a constant prediction costs: of classes their entropy, of numbers under a mean of squares their variance
    SELECT rank, step, loss_op IN ('NllLoss', 'NllLoss2D') AS classes, entropy AS floor, CASE WHEN len(shape) = 1 THEN 'label' ELSE 'labels' END AS kind
    FROM batches WHERE role = 'target' AND entropy IS NOT NULL AND loss_op IN ('NllLoss', 'NllLoss2D') AND phase <> 'eval'
    UNION ALL
    SELECT b.rank, b.step, false, s.sum_sq / s.numel - (s.sum / s.numel) ** 2, 'number'
    FROM batches b JOIN tensor_stats s ON s.rank = b.rank AND s.step = b.step AND s.seq = b.seq AND s.tensor_id = b.tensor_id
    WHERE b.role = 'target' AND b.loss_op = 'MseLoss' AND b.reduction = 'mean' AND b.phase <> 'eval' AND s.numel >= 8 AND s.nan_count + s.inf_count = 0
), mix AS (
    SELECT rank, step, avg(floor) AS batch_entropy, any_value(kind) AS kind FROM told
    WHERE rank IN (SELECT rank FROM told GROUP BY rank HAVING count(DISTINCT kind) = 1) GROUP BY rank, step
), whole AS (
    SELECT rank, median(batch_entropy) AS entropy, any_value(kind) AS kind FROM mix GROUP BY rank
), tops AS (
    SELECT f.rank, f.tensor_id, f.step, max(f.abs_max) AS top FROM batch_fields f WHERE f.role IN ('input', 'field') AND f.phase = 'data' AND contains(f.dtype, 'float') GROUP BY ALL
), tokens AS (
    -- a model that is fed sequences of whole numbers: how often which comes is learnt first, and the rest may take a run
    SELECT rank FROM (
        SELECT rank, arg_min(contains(dtype, 'int') AND len(shape) >= 2, seq) AS whole FROM batches WHERE role = 'input' AND phase = 'data' GROUP BY rank, step)
    GROUP BY rank HAVING bool_and(whole)
), outlying AS (
    SELECT t.rank, t.step FROM tops t JOIN (SELECT rank, tensor_id, median(top) AS usual FROM tops GROUP BY rank, tensor_id) u ON u.rank = t.rank AND u.tensor_id = t.tensor_id
    WHERE t.top > 3 * u.usual
), rows_ AS (
    SELECT o.*, w.entropy, w.kind, m.batch_entropy,
        median(m.batch_entropy) OVER (PARTITION BY o.rank, o.optimizer_id ORDER BY n ROWS BETWEEN 12 PRECEDING AND 1 PRECEDING) AS usual_entropy,
        median(m.batch_entropy) OVER ahead AS ahead_entropy,
        median(finite(loss)) OVER ahead AS ahead, min(finite(loss)) OVER ahead AS ahead_low, count(finite(loss)) OVER ahead AS ahead_rows,
        -- the variance of a batch of numbers is its own affair
        min(finite(loss) / CASE WHEN m.kind = 'number' THEN m.batch_entropy ELSE w.entropy END) OVER ahead AS ahead_share,
        max(update_ratio) OVER (PARTITION BY o.rank, o.optimizer_id ORDER BY n ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING) AS ratio_now,
        max(lr) OVER (PARTITION BY o.rank, o.optimizer_id ORDER BY n ROWS BETWEEN 5 PRECEDING AND CURRENT ROW) AS lr_recent, max(lr) OVER (PARTITION BY o.rank, o.optimizer_id ORDER BY n ROWS BETWEEN 12 PRECEDING AND 6 PRECEDING) AS lr_usual,
        -- steps of which no update was measured, because recording was sampled, moved the weights as far as the others
        avg(update_norm) OVER whole_ * count(*) OVER whole_ / median(weight_norm) OVER whole_ AS moved,
        count(CASE WHEN coalesce(update_norm > 0, true) THEN 1 END) OVER whole_ AS total
    FROM optimizer_series o JOIN mix m ON m.rank = o.rank AND m.step = o.step JOIN whole w ON w.rank = o.rank
    WHERE o.optimizers <= 1
    WINDOW ahead AS (PARTITION BY o.rank, o.optimizer_id ORDER BY n ROWS BETWEEN CURRENT ROW AND 9 FOLLOWING), whole_ AS (PARTITION BY o.rank, o.optimizer_id)
), back AS (
    -- how a loss comes back that had jumped: by and by it is learnt anew, as of another corpus
    SELECT rank, optimizer_id, n, loss, median(loss) OVER (PARTITION BY rank, optimizer_id ORDER BY n ROWS BETWEEN 6 PRECEDING AND 1 PRECEDING) AS just_before,
        median(loss) OVER (PARTITION BY rank, optimizer_id ORDER BY n ROWS BETWEEN CURRENT ROW AND 5 FOLLOWING) AS then_,
        count(*) OVER (PARTITION BY rank, optimizer_id ORDER BY n ROWS BETWEEN CURRENT ROW AND 5 FOLLOWING) AS looks
    FROM rows_ WHERE isfinite(loss)
), predictions AS (
    -- what the loss is given in a step, which is computed before its labels are seen, against the twelve steps before
    SELECT rank, step, size <= $alike * max(size) OVER past AND size >= min(size) OVER past / $alike AS as_ever, count(size) OVER past AS looks FROM (
        SELECT s.rank, s.step, sqrt(sum(s.sum_sq) / sum(s.numel)) AS size FROM tensor_stats s JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id
        WHERE t.tensor_name = 'loss:input' AND s.phase = 'loss' AND s.nan_count + s.inf_count = 0 GROUP BY s.rank, s.step)
    WINDOW past AS (PARTITION BY rank ORDER BY step ROWS BETWEEN 12 PRECEDING AND 1 PRECEDING)
), jumps AS (
    SELECT * FROM rows_
    WHERE history >= 8 AND entropy > 0.3 AND loss > $low * entropy AND CASE WHEN kind = 'number' THEN loss < $pairs * entropy AND ahead < $pairs * entropy ELSE loss < $most END
      AND (loss_median < $learnt * entropy OR loss_median < $begun * entropy
        AND (loss_peak < $low * entropy AND loss > loss_median + $leap * loss_sigma OR ahead_low > loss_peak AND loss > loss_median + 0.5 * $leap * loss_sigma)) AND ahead_share > 0.75 AND ahead > $low * entropy AND ahead_rows >= $least
      AND batch_entropy > 0.5 * entropy AND abs(ahead_entropy - usual_entropy) < CASE WHEN kind = 'number' THEN 0.3 ELSE 0.15 END * usual_entropy AND coalesce(lr_recent <= 1.5 * lr_usual, true) AND lr <= 1.5 * lr_before AND coalesce(ratio_now <= 5 * ratio_median, true)
      -- from one step to the next: a loss that climbs for many steps is driven there by the training itself
      AND loss > loss_recent_peak AND loss_recent_peak < 0.5 * (loss_median + loss)
      AND (rank, step) NOT IN (SELECT (rank, step) FROM outlying)
      AND NOT coalesce((SELECT arg_min(b.just_before, b.n) < loss_median + 0.8 * (least(rows_.loss, entropy) - loss_median) FROM back b
          WHERE b.rank = rows_.rank AND b.optimizer_id = rows_.optimizer_id AND b.n > rows_.n + $least AND b.looks = 6
            AND b.then_ < loss_median + 0.4 * (least(rows_.loss, entropy) - loss_median)), false)
      -- the same predictions and another loss: that speaks for the labels. Predictions that have changed speak for the model
      AND coalesce((SELECT p.as_ever AND p.looks >= 4 FROM predictions p WHERE p.rank = rows_.rank AND p.step = rows_.step), false)
      -- what is fed in or asked for has another size from there on
      AND NOT EXISTS (FROM data_changes c WHERE c.rank = rows_.rank AND c.step BETWEEN rows_.step - 1 AND rows_.step + 1 AND (kind <> 'label' OR c.role <> 'target'))
      -- a run that had diverged before is lost for a reason of its own
      AND NOT EXISTS (SELECT 1 FROM divergences d WHERE d.rank = rows_.rank AND d.step < rows_.step)
    QUALIFY row_number() OVER (PARTITION BY rank ORDER BY n) = 1
), shares AS (
    -- how far the weights of each kind have come; what is measured of an update are some of its elements
    SELECT rank, avg(drawn_update) * any_value(total) / median(drawn) AS drawn, avg(other_update) * any_value(total) / median(other) AS other FROM (
        SELECT p.rank, u.step, (SELECT count(*) FROM steps s WHERE s.rank = p.rank AND s.stepped) AS total,
            sqrt(sum(u.sum_sq / u.numel * w.numel) FILTER (p.class_name NOT LIKE '%Norm%')) AS drawn_update, sqrt(sum(w.sum_sq) FILTER (p.class_name NOT LIKE '%Norm%')) AS drawn,
            sqrt(sum(u.sum_sq / u.numel * w.numel) FILTER (p.class_name NOT LIKE '%Embedding%' AND len(p.shape) >= 2)) AS other_update,
            sqrt(sum(w.sum_sq) FILTER (p.class_name NOT LIKE '%Embedding%' AND len(p.shape) >= 2)) AS other
        FROM parameters p JOIN tensor_stats u ON u.rank = p.rank AND u.tensor_id = p.update_id JOIN tensor_stats w ON w.rank = p.rank AND w.tensor_id = p.tensor_id AND w.step = u.step
        WHERE p.optimizer_id IS NOT NULL AND u.numel > 0 GROUP BY ALL
    ) GROUP BY rank
), far AS (
    SELECT r.rank, greatest(any_value(r.moved), any_value(h.drawn)) AS moved,
        -- labels that are always the same ones are places in the batch: which of the others belongs to each
        CASE WHEN (SELECT count(DISTINCT b.fingerprint) FROM batches b WHERE b.rank = r.rank AND b.role = 'target' AND b.phase <> 'eval') = 1 THEN any_value(h.other) END AS beside_embeddings
    FROM rows_ r LEFT JOIN shares h ON h.rank = r.rank GROUP BY r.rank
), fresh AS (
    -- samples that come for the first time cannot have been memorised. The entropy of few labels is too small by (k - 1) / 2n
    SELECT o.rank, count(*) AS batches, avg(d) AS gain, stddev(d) / sqrt(count(*)) AS error FROM (
        SELECT o.rank, o.step, o.loss - b.entropy - ((SELECT count(*) FROM unnest(b.label_counts) AS u(c) WHERE c > 0) - 1) / (2.0 * list_sum(b.label_counts)) AS d, row_number() OVER (PARTITION BY o.rank ORDER BY o.step) AS n
        FROM optimizer_series o JOIN batches b ON b.rank = o.rank AND b.step = o.step AND b.role = 'target' AND b.entropy IS NOT NULL AND b.loss_op = 'NllLoss' AND b.reduction = 'mean' AND b.phase <> 'eval' AND NOT coalesce(b.weighted, false)
        JOIN steps t ON t.rank = o.rank AND t.step = o.step
        WHERE o.optimizers <= 1 AND isfinite(o.loss) AND list_sum(b.label_counts) > 0 AND t.epoch = 0
    ) o WHERE n > $least GROUP BY o.rank HAVING count(*) >= $fresh
), never AS (
    SELECT rank, min(step) AS step, median(finite(loss)) FILTER (n >= 0.5 * total) AS value, any_value(entropy) AS entropy, any_value(total) AS total,
        -- many a network needs a hundred steps before it begins to learn
        CASE WHEN any_value(total) < $sure OR (SELECT coalesce(f.moved, 0) FROM far f WHERE f.rank = rows_.rank) <= $moved OR rank IN (FROM tokens) THEN 'warning' ELSE 'error' END AS severity
    FROM rows_ WHERE total >= 60 AND kind = 'label' AND coalesce(update_norm > 0, true) GROUP BY rank
    HAVING rank IN (SELECT f.rank FROM far f WHERE f.moved > $moved OR f.beside_embeddings > $moved) AND median(finite(loss)) FILTER (n >= 0.5 * total) BETWEEN 0.93 * any_value(entropy) AND 1.15 * any_value(entropy)
       AND min(finite(loss)) > 0.75 * any_value(entropy) AND max(finite(loss)) FILTER (n >= 5) <= $wild * any_value(entropy) AND any_value(entropy) > 0.3
       AND least(median(finite(loss)) FILTER (n < 0.3 * total), any_value(entropy)) - median(finite(loss)) FILTER (n >= 0.7 * total) < 0.04 * any_value(entropy)
       AND median(update_ratio) > 1e-4
       AND rank NOT IN (SELECT f.rank FROM fresh f WHERE f.gain < -$certain * f.error)
)
SELECT rank, step, loss AS value, entropy, CASE WHEN kind = 'number' THEN 'the variance of the targets' ELSE 'the entropy of the labels' END AS floor_, 'At step ' || step || ' the loss jumped from ' || printf('%.3g', loss_median) || ' and stayed' AS how_ FROM jumps
UNION ALL BY NAME
-- it is dated by the beginning of the run: what accounts for it may be seen at any step
SELECT rank, step, value, entropy, 'the entropy of the labels' AS floor_, severity, 'In ' || total || ' steps nothing was learnt' AS how_, total AS slack FROM never WHERE rank NOT IN (SELECT rank FROM jumps)
ORDER BY step, rank
