/*
code = "DA024"
name = "constant-target"
severity = "error"
phase = "loss"
signal = "label_counts"
message = "All {total} targets of {batches} batches are class {top}, of {classes} that the model can give{ignored_}. There is nothing to tell apart."
fix = "Look at the targets where they are made. Usual causes are a division or cast to whole numbers and a comparison that always holds. Others are a wrong column and a filter that leaves one class. Print how often each class occurs before the first epoch."
seeks = ["batches: role = 'target' AND phase <> 'eval' AND (list_max(label_counts) = list_sum(label_counts) OR classes = 2 AND ignored_count > 0)"]
explains = ["class-imbalance", "plateau", "shuffled-labels", "gradients-vanish", "overfit", "constant-input", "representation-collapse"]
[say.ignored_]
other_class = ": the loss ignores those of the other one (ignore_index)"
[params.least]
value = 200
unit = "targets"
doc = "Targets seen."
source = "arithmetic: were one target in twenty of another class, all of 200 would be one class in 1 of 28,000 runs"
[params.batches]
value = 8
unit = "batches"
doc = "Batches seen."
source = "convention: of this project, fewer are a test"
[needs]
tables = ["batches"]
steps = 8
[doc]
what = "Every target of a classification loss in the whole run is the same class. Yet the loss saw several classes, and the data has been gone through once. This is a warning where the loss ignores some of its targets. Or the loss tells two classes apart and ignores all targets of one of them."
why = "The loss falls to nothing, because to say that class always is enough, and the model has learnt nothing."
not_this = "A run that ended before its first epoch did, whose data may be sorted. Targets of a regression, which may be zero for every sample where a residual is learnt. A discriminator, whose targets are of both classes in one step. A loss that ignores most targets."
source = "Counting."
*/
-- shared
WITH targets AS (
    SELECT rank, step, tensor_id, loader_id, epoch, fingerprint, classes, label_counts, ignored_count,
        list_sum(label_counts) AS total, list_position(label_counts, list_max(label_counts)) - 1 AS top,
        list_max(label_counts) AS most
    FROM batches
    WHERE role = 'target' AND phase <> 'eval' AND label_counts IS NOT NULL AND list_sum(label_counts) > 0
), seen_again AS (
    -- an iteration over the loader that is not the first, or batches that come back
    SELECT rank FROM targets WHERE epoch >= 1
    UNION
    SELECT rank FROM batches WHERE role = 'input' AND phase <> 'eval' AND (epoch >= 1)
    UNION
    SELECT rank FROM batches
    WHERE role = 'input' AND phase <> 'eval' AND loader_id IS NULL AND fingerprint IS NOT NULL
    GROUP BY rank HAVING count(DISTINCT fingerprint) < count(*)
)
-- detector: all_alike
SELECT rank, min(step) AS step, any_value(top) AS top, max(classes) AS classes, sum(total)::BIGINT AS total,
    count(*) AS batches, 1.0 AS value,
    -- where some are ignored, the loss may have chosen its targets: the background beside a few points
    CASE WHEN coalesce(sum(ignored_count), 0) > 0 THEN 'warning' ELSE 'error' END AS severity,
    NULL AS ignored_
FROM targets
WHERE rank IN (FROM seen_again)
GROUP BY rank
HAVING bool_and(most = total)
    -- a loss that leaves out most of them chooses its targets: one term of several
    AND coalesce(sum(ignored_count), 0) < sum(total)
    AND count(DISTINCT top) = 1
    AND max(classes) >= 2
    AND sum(total) >= $least
    AND count(*) >= $batches
-- detector: other_class_ignored
-- a mark for "no target" is no class: here as many are ignored in each batch as there are of one class
SELECT rank, min(step) AS step,
    CASE WHEN bool_and(ignored_count = label_counts[1]) THEN 1 ELSE 0 END AS top, 2 AS classes,
    sum(total - ignored_count)::BIGINT AS total, count(*) AS batches, 1.0 AS value, 'error' AS severity,
    'other_class' AS ignored_
FROM targets
WHERE classes = 2
GROUP BY rank, tensor_id
HAVING (bool_and(ignored_count = label_counts[1]) OR bool_and(ignored_count = label_counts[2]))
    AND sum(ignored_count) > 0
    AND sum(total) >= $least
    AND count(*) >= $batches
-- together
ORDER BY rank, severity
