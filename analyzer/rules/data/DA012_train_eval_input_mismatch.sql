/*
code = "DA012"
name = "train-eval-input-mismatch"
severity = "error"
phase = "eval"
signal = "mean_std"
message = "{tensor}: in evaluation mean {mean_eval} and standard deviation {value}, in training mean {mean_train} and {std_train}: one of the two is normalised otherwise."
fix = "Use the same preprocessing for training and evaluation: one of them normalises twice or not at all."
explains = ["overfit", "batchnorm-small-batch"]
[params.shift]
value = 3.0
unit = "standard deviations"
doc = "Shift of the mean."
[params.times]
value = 3.0
unit = "times"
doc = "Ratio of the standard deviations."
[needs]
tables = ["batches", "tensor_stats"]
columns = ["tensor_stats.sum"]
steps = 3
[doc]
what = "The input of a model in evaluation whose mean or spread is far from that of the training batches, beyond what these vary among themselves."
why = "A model judged on other numbers than it was trained on looks bad for the wrong reason."
not_this = "Masks, integers, inputs that vary as much between training batches, or that a model makes for itself step by step."
source = "Comparison with the training batches' own spread."
*/
WITH inputs AS (
    SELECT b.rank, b.step, b.seq, b.phase = 'eval' AS evaluated, regexp_replace(t.tensor_name, '^batch:|^input:', '') AS field, t.tensor_name AS tensor, b.role,
        s.sum / s.numel AS mean, sqrt(greatest(s.sum_sq / s.numel - pow(s.sum / s.numel, 2), 0)) AS std, len(b.shape) AS dims, b.shape[len(b.shape)] AS width
    FROM batches b JOIN tensor_stats s ON s.rank = b.rank AND s.step = b.step AND s.seq = b.seq AND s.tensor_id = b.tensor_id
    JOIN tensors t ON t.rank = b.rank AND t.tensor_id = b.tensor_id
    WHERE b.role = 'input' AND contains(b.dtype, 'float') AND s.numel >= 32 AND s.nan_count + s.inf_count = 0 AND s.sum IS NOT NULL AND b.valid_fraction IS NULL
    -- of an evaluation the first: what a model is fed next may be its own output, as in sampling
    QUALIFY NOT evaluated OR b.seq = min(b.seq) OVER (PARTITION BY b.rank, b.step, evaluated, dims, width)
), sides AS (
    SELECT rank, dims, width, evaluated, count(*) AS batches, median(mean) AS mean, median(std) AS std, min(std) AS std_low, max(std) AS std_high, min(mean) AS mean_low, max(mean) AS mean_high,
        min(step) AS step, arg_min(tensor, step) AS tensor, count(DISTINCT tensor) AS tensors
    FROM inputs GROUP BY rank, dims, width, evaluated
)
SELECT e.rank, e.step, e.tensor, e.mean AS mean_eval, e.std AS value, t.mean AS mean_train, t.std AS std_train, e.batches, t.batches AS train_batches
FROM sides e JOIN sides t ON t.rank = e.rank AND t.dims = e.dims AND t.width = e.width AND e.evaluated AND NOT t.evaluated
WHERE t.batches >= 3 AND t.std > 0 AND t.tensors <= 2 AND t.std_high < 2 * t.std_low
  AND ((abs(e.mean - t.mean) > $shift * t.std AND (e.mean > t.mean_high OR e.mean < t.mean_low))
    OR e.std > $times * t.std_high OR e.std < t.std_low / $times)
ORDER BY e.step, e.rank
