/*
code = "DA005"
name = "all-targets-ignored"
severity = "error"
phase = "loss"
signal = "valid_targets"
message = "{targets_}. They teach nothing, and the loss is {loss}."
fix = "Skip batches without a valid target, or divide the summed loss by max(valid targets, 1). Check why the labels of this batch are all ignore_index (truncation that cuts the answer, wrong masking)."
seeks = [
    [
        """batch_fields: ignored_count > 0 AND ignored_count >= coalesce(numel, list_product(shape)::BIGINT) \
            AND phase <> 'eval'""",
        "operators: saved = 'total_weight' AND max = 0",
    ],
]
explains = ["outlier-batch", "nonfinite-values", "loss-off-course", "exploding-gradients", "frozen-by-zero-gradient"]
[say.targets_]
all_ignored = "All {numel} targets of step {step} (microbatch {microbatch}) are ignored by the loss"
none_counts = "The targets that {loss_op} was given in step {step} weigh nothing together: there was none, or none counts"
[needs]
tables = ["batches", "steps"]
[doc]
what = "No target of a batch counts for the loss, or a loss is given none, and it is NaN (0 / 0) or exactly 0."
why = "A mean over nothing is NaN, and one optimizer step with NaN gradients ends the training."
not_this = "A guarded loss of exactly 0 is shown as a warning only: the batch teaches nothing, but harms nothing."
source = "Arithmetic: 0 / 0."
*/
-- detector: ignored
WITH losses AS (
    SELECT rank, step, microbatch, bool_or(nan_count + inf_count > 0) AS broke, max(sum) AS loss
    FROM stats WHERE kind = 'loss' AND phase = 'loss' GROUP BY rank, step, microbatch
), whole AS (
    SELECT rank, step, bool_or(is_nonfinite(loss)) AS broke, max(loss) AS loss FROM steps GROUP BY rank, step
)
SELECT b.rank, b.step, b.microbatch, b.seq, b.phase, b.field AS tensor,
    coalesce(b.numel, list_product(b.shape)::BIGINT) AS numel,
    b.ignored_count, 0 AS value, b.loss_op, b.shape, b.fingerprint,
    CASE WHEN coalesce(l.broke, w.broke) THEN 'NaN' ELSE '0' END AS loss,
    CASE WHEN coalesce(l.broke, w.broke) THEN 'error' ELSE 'warning' END AS severity,
    'all_ignored' AS targets_
FROM batch_fields b
LEFT JOIN losses l ON l.rank = b.rank AND l.step = b.step AND l.microbatch = b.microbatch
LEFT JOIN whole w ON w.rank = b.rank AND w.step = b.step
WHERE b.ignored_count > 0
  AND b.ignored_count >= coalesce(b.numel, list_product(b.shape)::BIGINT)
  AND b.phase <> 'eval'
  AND (coalesce(l.broke, w.broke) OR coalesce(l.loss, w.loss) = 0)
-- detector: weightless
-- the mean of a loss over targets whose weights sum to zero, such as the rows of a task that the batch lacks
SELECT p.rank, p.step, p.microbatch, p.seq, 'loss' AS phase, 'total_weight' AS tensor, 0 AS value,
    p.op AS loss_op, 'NaN' AS loss, 'error' AS severity, 'none_counts' AS targets_
FROM operator_sites p
JOIN nonfinite_origin o ON o.rank = p.rank AND o.step = p.step AND o.kind = 'loss'
WHERE p.trigger = 'nonfinite' AND p.op LIKE 'NllLoss%' AND p.saved = 'total_weight'
  AND p.min = 0 AND p.max = 0
  AND NOT EXISTS (FROM batches b WHERE b.rank = p.rank AND b.step = p.step AND b.reduction = 'sum')
  -- a loss that is not reduced has no weight of its targets: there must be none of them
  AND (NOT EXISTS (FROM batches b WHERE b.rank = p.rank AND b.step = p.step AND b.reduction = 'none')
      OR EXISTS (FROM batches b
          WHERE b.rank = p.rank AND b.step = p.step AND b.role = 'target' AND list_contains(b.shape, 0)))
  AND NOT EXISTS (FROM operator_sites e
      WHERE e.rank = p.rank AND e.step = p.step AND e.trigger = 'nonfinite'
        AND e.graph_seq < p.graph_seq AND e.nan_count + e.inf_count > 0)
  AND (p.rank, p.step) NOT IN (SELECT (rank, step) FROM ignored)
-- together
ORDER BY severity, step, rank, seq
