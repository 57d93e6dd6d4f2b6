/*
code = "DA001"
name = "nonfinite-input"
severity = "error"
phase = "data"
signal = "nonfinite_count"
message = "In step {step} {what_} held {held_} (shape {shape}) before any module had computed one; {reached} followed in the same step."
fix = "Find the sample behind {tensor} at step {step}, or the code that computes it, and guard it: no division by a zero std, no parsing of empty cells to NaN; torch.nan_to_num or dropping the sample keeps the training alive."
explains = ["outlier-batch", "nonfinite-tensor", "log-of-zero", "sqrt-at-zero", "fully-masked-attention-row", "fp16-overflow", "optimizer-eps-underflow", "exploding-gradients", "loss-spike", "divergence", "lr-too-high", "all-targets-ignored", "python-exception"]
[needs]
tables = ["steps", "tensor_stats"]
[doc]
what = "The first non-finite tensor of the first bad step is a field of the batch, an input of the model or a target of the loss; or the script ended with an exception about values that are not finite, raised in a model whose own argument held some, before any step was bad."
why = "Whatever is computed from it is lost, and one optimizer step carries it into every weight."
not_this = "Infinite masks (only 0 and -inf), and NaN markers in a field that the run survived in this or earlier steps."
source = "Arithmetic: a non-finite operand gives a non-finite result."
*/
SELECT o.rank, o.step, o.microbatch, o.seq, o.phase,
    coalesce(o.module, '') AS module, coalesce(b.field, o.tensor) AS tensor, o.kind,
    o.nan_count, o.inf_count, o.nan_count + o.inf_count AS value, coalesce(b.shape, o.shape) AS shape, o.min, o.max, b.fingerprint,
    CASE WHEN o.kind = 'target' AND o.phase = 'loss' THEN 'the target that the loss was given' ELSE printf('field %s of the batch', coalesce(b.field, o.tensor)) END AS what_,
    'a non-finite ' || array_to_string(s.signs, ' and ') AS reached, printf('%d NaN and %d infinite elements', o.nan_count, o.inf_count) AS held_
FROM nonfinite_origin o
JOIN bad_steps s ON s.rank = o.rank AND s.step = o.step
LEFT JOIN batches b ON b.rank = o.rank AND b.step = o.step AND b.seq = o.seq
WHERE o.kind IN ('input', 'target')
  -- a float mask of -inf and one finite value is wanted
  AND (o.nan_count > 0 OR o.max > o.min OR o.max IS NULL)
UNION ALL BY NAME
-- on a CPU the extremes of an argument are always measured: where there are none they were not finite
SELECT e.rank, e.step, 'data' AS phase, '' AS module, 'argument ' || x.name AS tensor, 'input' AS kind, x.shape, 'argument ' || x.name || ' of the model' AS what_, 'the exception' AS reached,
    'elements that are not finite' AS held_
FROM exits e JOIN exception_tensors x ON x.origin = 'input' AND x.device = 'cpu' AND contains(x.dtype, 'float') AND x.min IS NULL AND list_product(x.shape) > 0
WHERE e.status = 'exception' AND e.module = '' AND regexp_matches(e.exception_message, '(?i)\bnan\b|\binf\b|finite|invalid')
  AND NOT EXISTS (FROM bad_steps b WHERE b.step <= e.step)
QUALIFY row_number() OVER (PARTITION BY e.rank ORDER BY x.ordinal) = 1
ORDER BY rank
