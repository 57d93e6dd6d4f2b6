/*
code = "DA005"
name = "all-targets-ignored"
severity = "error"
phase = "loss"
signal = "valid_targets"
message = "All {numel} targets of step {step} (microbatch {microbatch}) are ignored by the loss. They teach nothing, and the loss is {loss}."
fix = "Skip batches without a valid target, or divide the summed loss by max(valid targets, 1). Check why the labels of this batch are all ignore_index (truncation that cuts the answer, wrong masking)."
seeks = [
    """batch_fields: ignored_count > 0 AND ignored_count >= coalesce(numel, list_product(shape)::BIGINT) \
        AND phase <> 'eval'""",
]
explains = ["outlier-batch", "nonfinite-values", "loss-off-course", "exploding-gradients", "frozen-by-zero-gradient"]
[needs]
tables = ["batches", "steps"]
[doc]
what = "No target of a batch counts for the loss, and the loss is NaN (0 / 0) or exactly 0."
why = "A mean over nothing is NaN, and one optimizer step with NaN gradients ends the training."
not_this = "A guarded loss of exactly 0 is shown as a warning only: the batch teaches nothing, but harms nothing."
source = "Arithmetic: 0 / 0."
*/
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
    CASE WHEN coalesce(l.broke, w.broke) THEN 'error' ELSE 'warning' END AS severity
FROM batch_fields b
LEFT JOIN losses l ON l.rank = b.rank AND l.step = b.step AND l.microbatch = b.microbatch
LEFT JOIN whole w ON w.rank = b.rank AND w.step = b.step
WHERE b.ignored_count > 0
  AND b.ignored_count >= coalesce(b.numel, list_product(b.shape)::BIGINT)
  AND b.phase <> 'eval'
  AND (coalesce(l.broke, w.broke) OR coalesce(l.loss, w.loss) = 0)
ORDER BY severity, b.step, b.rank, b.seq
