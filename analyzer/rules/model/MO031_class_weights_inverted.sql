/*
code = "MO031"
name = "class-weights-inverted"
severity = "error"
phase = "loss"
signal = "class_weights"
message = "{loss_op} weighs the classes as often as they occur. Class {top}, {percent} % of the {total} targets, counts {high:.3g} times, and class {rare}, {rare_percent} %, counts {low:.3g} times. The frequent class, which needs no help, counts most."
fix = "Weigh each class by the inverse of its frequency. Set weight = total / (classes * counts), or pos_weight = negatives / positives."
seeks = ["batches: class_weights IS NOT NULL AND role = 'target'"]
explains = ["class-imbalance", "representation-collapse", "underfit"]
[params.least]
value = 200
unit = "targets"
doc = "Targets seen."
source = "arithmetic: a share of one half has a standard error of 3.5 % then"
[params.ratio]
value = 2
unit = "times"
doc = "Most frequent over least frequent class."
source = "convention: of this project, classes of about the same frequency need no weights, and theirs say nothing"
[params.rare]
value = 8
unit = "targets"
doc = "Targets of the least frequent class."
source = "arithmetic: the logarithm of a count of eight has a standard error of 0.35"
[params.slope]
value = 0.35
doc = "How far the slope of the logarithm of the weights over that of the frequencies may be from 1."
source = "arithmetic: weights that are the frequencies have the slope 1, their square roots 0.5; counts scatter"
[params.proportional]
value = 1
doc = "Slope of the logarithm of weights that are in proportion to the frequencies."
source = "arithmetic: ln(a x) = ln a + ln x"
[params.alike]
value = 0.9
doc = "Correlation of the two."
source = "convention: of this project, what lies on one line"
[needs]
tables = ["batches"]
[doc]
what = "A loss was given weights for its classes. They are in proportion to how often each class is a target."
why = "The loss is made of the frequent class even more than it would be without weights. The rare class is given up."
not_this = "Weights that favour rare classes, or one class on purpose; classes of about the same frequency."
source = "King and Zeng (2001), Logistic Regression in Rare Events Data: a class is weighted by the inverse of its share."
*/
WITH weights AS (
    -- the same throughout; those that change are made for a batch
    SELECT rank, loss_op, step, unnest(class_weights) AS weight,
        generate_subscripts(class_weights, 1) - 1 AS class
    FROM (SELECT rank, loss_op, min(step) AS step, any_value(class_weights) AS class_weights
        FROM batches
        WHERE role = 'target' AND phase <> 'eval' AND class_weights IS NOT NULL
        GROUP BY rank, loss_op HAVING count(DISTINCT class_weights) = 1)
), counts AS (
    SELECT rank, loss_op, class, sum(count_) AS count_ FROM (
        SELECT rank, loss_op, unnest(label_counts) AS count_,
            generate_subscripts(label_counts, 1) - 1 AS class
        FROM batches
        WHERE role = 'target' AND phase <> 'eval' AND label_counts IS NOT NULL AND weighted
        UNION ALL
        -- of a binary loss the positive targets are the sum
        SELECT b.rank, b.loss_op, unnest([s.numel - s.sum, s.sum]) AS count_, unnest([0, 1]) AS class
        FROM batches b
        JOIN tensor_stats s ON s.rank = b.rank
            AND s.step = b.step
            AND s.seq = b.seq
            AND s.tensor_id = b.tensor_id
        WHERE b.role = 'target' AND b.phase <> 'eval' AND b.label_counts IS NULL AND len(b.class_weights) = 2
          AND b.loss_op LIKE 'BinaryCrossEntropy%' AND s.min >= 0 AND s.max <= 1
    ) GROUP BY rank, loss_op, class HAVING sum(count_) > 0
), fitted AS (
    SELECT w.rank, w.loss_op, min(w.step) AS step, count(*) AS classes, sum(c.count_) AS total,
        max(c.count_) AS most, min(c.count_) AS least_, arg_max(w.class, c.count_) AS top,
        arg_min(w.class, c.count_) AS rare, arg_max(w.weight, c.count_) AS high,
        arg_min(w.weight, c.count_) AS low, regr_slope(ln(w.weight), ln(c.count_)) AS slope,
        corr(ln(w.weight), ln(c.count_)) AS alike
    FROM weights w
    JOIN counts c ON c.rank = w.rank AND c.loss_op = w.loss_op AND c.class = w.class
    WHERE w.weight > 0
    GROUP BY w.rank, w.loss_op
)
SELECT rank, step, loss_op, top, rare, round(slope, 3) AS value, total::BIGINT AS total,
    percent_of(most / total) AS percent, percent_of(least_ / total) AS rare_percent,
    high, low
FROM fitted
WHERE classes > 1
  AND total >= $least
  AND least_ >= $rare
  AND most >= $ratio * least_
  AND alike >= $alike
  AND abs(slope - $proportional) <= $slope
ORDER BY step, rank
