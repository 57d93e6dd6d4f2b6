/*
code = "MO027"
name = "logit-drift"
severity = "warning"
phase = "forward"
signal = "abs_max"
message = "The logits that {place_} gives to the loss grow steadily. Their largest size goes from {first} in the first steps to {value} at the end. From step {step} on it is beyond {limit}, where softmax is saturated."
fix = "Add a z-loss or weight decay on the last layer, smooth the labels, or lower the learning rate. In half precision such logits lose their differences."
seeks = [
    "batches: loss_op LIKE 'NllLoss%'",
    "tensor_stats: phase = 'forward' AND isfinite(min) AND isfinite(max) AND greatest(abs(min), abs(max)) > $size",
]
explains = ["fp16-overflow"]
[say.place_]
root = "the model ({class_name})"
named = "{module} ({class_name})"
[params.size]
value = 50.0
doc = "Size of a logit beyond which exp() of its distance from the others is below float32's resolution many times over."
source = "arithmetic: exp(-50) is 2e-22, far below float32's resolution of 1e-7"
[params.times]
value = 5.0
unit = "times"
doc = "Growth since the first tenth of the run."
source = "own history"
[params.steady]
value = 0.8
doc = "Correlation of the size with the step, over the second half of the run."
source = "arithmetic: 0.8 squared: 64 % of the variance are the trend"
[params.depth]
value = 5.0
unit = "times"
doc = "The outputs must not lie this many times further apart than the log-probabilities that the loss got."
source = "convention: of this project, outputs that lie as far apart as log-probabilities are classes told apart, rather than drift"
[params.gained]
value = 0.5
doc = "Share of the loss in the middle of the run to which it falls at the end where the growth still pays."
source = "own history"
[params.masked]
value = 1e4
doc = "Size from which a logit is the mask of one."
source = "convention: of this project, masks of -1e4 and -1e9 are in use"
[params.rounding]
value = 1e-3
doc = "Size above zero up to which a log-probability is one."
source = "convention: of this project, rounding of float16"
[params.few]
value = 3
unit = "looks"
doc = "Looks from which a median is told, at least."
source = "convention: of this project, fewer scatter too much"
[params.tenth]
value = 10
unit = "looks"
doc = "Parts of the run, of which the first and the last are compared."
source = "convention: of this project, a tenth of a run is its beginning"
[params.nothing]
value = 1e-9
doc = "Least size whose logarithm is taken."
source = "arithmetic: no logarithm of zero"
[params.looks]
value = 20
unit = "looks"
doc = "Looks at the logits."
source = "convention: of this project, fewer have no trend to speak of"
[params.goes_on]
value = 1.2
unit = "times"
doc = "Growth over the second half of the run."
source = "convention: of this project, less may have come to its end"
[needs]
tables = ["batches", "steps"]
kinds = ["activation"]
steps = 20
[doc]
what = "The largest output of a classifier's last module grows through the run, far beyond what probabilities need."
why = "Softmax saturates: wrong samples get huge losses, right ones no gradient, and half precision overflows later."
not_this = "Regression, logits that are masked with large negative numbers. Large logits that have come to rest, or whose growth still halves the loss. Outputs that are divided (by a temperature) before the loss: its log-probabilities then lie far less apart."
source = "Limits of 10 and 50 on logits are in use; growth is measured against the run's own beginning."
*/
WITH last_modules AS (
    -- the last module of a model whose loss is a negative log-likelihood of classes
    SELECT m.rank, m.model, arg_max(m.module_id, m.call_order) AS module_id FROM modules m
    WHERE m.call_order IS NOT NULL
      AND m.own_numel > 0
      AND m.rank IN (SELECT rank FROM batches WHERE loss_op LIKE 'NllLoss%')
    GROUP BY m.rank, m.model
), series AS (
    SELECT s.rank, l.module_id, m.module, m.class_name, s.step, max(greatest(abs(s.min), abs(s.max))) AS size,
        max(s.max) - min(s.min) AS spread, row_number() OVER w AS n,
        count(*) OVER (PARTITION BY s.rank, l.module_id) AS total
    FROM tensor_stats s
    JOIN tensors t ON t.rank = s.rank
        AND t.tensor_id = s.tensor_id
        AND t.kind = 'activation'
        AND t.tensor_name LIKE '%:output0'
    JOIN last_modules l ON l.rank = t.rank AND l.module_id = t.module_id
    JOIN modules m ON m.rank = l.rank AND m.module_id = l.module_id
    WHERE list_has_any(t.shape[2:],
        (SELECT list(DISTINCT b.classes) FROM batches b WHERE b.rank = t.rank AND b.loss_op LIKE 'NllLoss%'))
      AND s.phase = 'forward'
      AND isfinite(s.max)
      AND isfinite(s.min)
      AND s.nan_count + s.inf_count = 0
      AND s.min > -$masked
    GROUP BY s.rank, l.module_id, m.module, m.class_name, s.step
    WINDOW w AS (PARTITION BY s.rank, l.module_id ORDER BY s.step)
), depths AS (
    -- how far the lowest log-probability lies below zero: about as far as the logits of its row lie apart
    SELECT s.rank, s.step, -min(s.min) AS depth
    FROM tensor_stats s
    JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id
    WHERE t.kind = 'output'
      AND t.tensor_name LIKE 'loss%:input'
      AND s.phase <> 'eval'
      AND s.nan_count + s.inf_count = 0
      AND t.rank IN (SELECT rank
          FROM batches
          GROUP BY rank
          HAVING bool_and(loss_op LIKE 'NllLoss%') FILTER (loss_op IS NOT NULL))
    GROUP BY s.rank, s.step HAVING max(s.max) <= $rounding
), ends AS (
    SELECT rank, module_id, any_value(module) AS module, any_value(class_name) AS class_name,
        median(size) FILTER (n <= greatest($few, total / $tenth)) AS first,
        median(size) FILTER (n > total - greatest($few, total / $tenth)) AS value,
            corr(ln(size + $nothing), n) FILTER (n > total / 2) AS steady,
        median(size) FILTER (n BETWEEN total / 2 - $few AND total / 2 + $few) AS half,
            min(step) FILTER (size > $size) AS step, count(*) AS total,
        median(loss) FILTER (n BETWEEN total / 2 - $few AND total / 2 + $few) AS loss_half,
            median(loss) FILTER (n > total - greatest($few, total / $tenth)) AS loss,
        median(spread) FILTER (n > total - greatest($few, total / $tenth) AND depth IS NOT NULL) AS spread,
            median(depth) FILTER (n > total - greatest($few, total / $tenth)) AS depth
    FROM series
    LEFT JOIN depths USING (rank, step)
    LEFT JOIN (SELECT rank, step, avg(loss) AS loss FROM steps GROUP BY rank, step) USING (rank, step)
    GROUP BY rank, module_id
)
SELECT rank, step, module, class_name, first, value, $size AS "limit",
    CASE module WHEN '' THEN 'root' ELSE 'named' END AS place_
FROM ends
WHERE total >= $looks
  AND value > $size
  AND value > $times * first
  AND steady > $steady
  AND value > $goes_on * half
  AND coalesce(spread <= $depth * depth, true)
  -- classes that can be told apart: the loss falls on with every bit of growth
  AND NOT coalesce(loss > 0 AND loss < $gained * loss_half, false)
ORDER BY step, rank
