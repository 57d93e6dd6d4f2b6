/*
code = "DA017"
name = "input-dtype-or-shape-change"
severity = "error"
phase = "data"
signal = "shape"
message = "At step {step} {field} became {dtype} {shape_}; in {seen} batches before it was {dtype_before} {shape_before}."
fix = "Check what the pipeline does from step {step} on: another collate path, another file, a missing conversion."
explains = ["loss-off-course", "outlier-batch"]
reach = 5
[params.least]
value = 5
unit = "batches"
doc = "Batches before, all alike."
source = "convention: of this project, fewer batches do not show what is usual"
[params.dims]
value = 4
doc = "Dimensions of a picture."
source = "arithmetic: batch, channels, height and width"
[params.rows]
value = 3
unit = "batches"
doc = "Batches of the new kind."
source = "convention: of this project, fewer may be the last ones"
[needs]
tables = ["batches"]
columns = ["batches.shape", "batches.dtype"]
steps = 6
[doc]
what = "The dtype or the number of dimensions of an input or target changes after batches that were all alike. Or its trailing dimensions change and stay changed. Or pictures of several channels suddenly have one channel, even if only now and then."
why = "The model is fed something else than before, often without an error thanks to broadcasting."
not_this = "Batch sizes, sequence lengths that vary, a step that broke off (its exception says it), another loader. Another loss or one more of the same kind. A call of the model beside that of the training. Another stage of training with an optimizer of its own."
source = "Equality."
*/
WITH done AS (
    SELECT DISTINCT rank, step FROM steps WHERE completed
), various AS (
    -- nearly no field ever changes: only those that do are worth the windows below
    SELECT rank, tensor_id FROM batches WHERE phase <> 'eval' AND shape IS NOT NULL GROUP BY rank, tensor_id
    HAVING count(DISTINCT dtype) > 1 OR min(len(shape)) < max(len(shape)) OR min(shape[2:]) < max(shape[2:])
), fields AS (
    SELECT b.rank, b.step, b.microbatch, b.seq, b.tensor_id, b.loader_id, b.loss_op, b.field, b.dtype,
        b.shape, len(b.shape) AS dims, b.shape[2:] AS tail,
        lag(b.dtype) OVER series AS dtype_before, lag(b.shape) OVER series AS shape_before,
        count(*) OVER before AS seen, count(DISTINCT b.dtype) OVER before AS dtypes,
            min(len(b.shape)) OVER before AS dims_low, max(len(b.shape)) OVER before AS dims_high,
        min(b.shape[2:]) OVER before AS tail_low, max(b.shape[2:]) OVER before AS tail_high,
        min(b.shape[2:]) OVER ahead AS ahead_low, max(b.shape[2:]) OVER ahead AS ahead_high,
            count(*) OVER ahead AS rows_
    FROM (SELECT *,
        (SELECT count(*) FROM handovers h WHERE h.rank = batches.rank AND h.step <= batches.step) AS stage
        FROM batches) b
    JOIN done d ON d.rank = b.rank AND d.step = b.step
    JOIN various v ON v.rank = b.rank AND v.tensor_id = b.tensor_id
    WHERE b.phase <> 'eval' AND b.shape IS NOT NULL
    WINDOW series AS (PARTITION BY b.rank, b.tensor_id, b.loader_id, b.loss_op, b.stage
        ORDER BY b.step, b.seq),
        before AS (PARTITION BY b.rank, b.tensor_id, b.loader_id, b.loss_op, b.stage
            ORDER BY b.step, b.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
        ahead AS (PARTITION BY b.rank, b.tensor_id, b.loader_id, b.loss_op, b.stage
            ORDER BY b.step, b.seq ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)
)
SELECT rank, step, seq, field, dtype, dtype_before, shape::VARCHAR AS shape_,
    shape_before::VARCHAR AS shape_before, seen,
    CASE WHEN dtype <> dtype_before
        OR dims <> dims_low
        OR channels THEN 'error' ELSE 'warning' END AS severity,
        shape::VARCHAR AS value
FROM (SELECT *, dims = dims_low
    AND dims >= $dims
    AND contains(dtype, 'float')
    AND tail_low = tail_high
    AND tail_low[1] > 1
    AND tail[1] = 1
    AND tail[2:] = tail_low[2:] AS channels
    FROM fields) fields
WHERE seen >= $least AND dtypes = 1 AND dims_low = dims_high
  AND (dtype <> dtype_before OR dims <> dims_low
    -- one channel in the place of several is stretched over whatever it meets
    OR channels
    OR (len(tail) > 0
        AND tail_low = tail_high
        AND tail <> tail_low
        AND ahead_low = ahead_high
        AND rows_ >= $rows))
  -- several losses in every step, or a call beside that of the training, as of an agent that acts: what is
  -- added changes nothing in
  -- what was there
  AND NOT EXISTS (FROM batches o
      WHERE o.rank = fields.rank
        AND o.step = fields.step
        AND o.microbatch IS NOT DISTINCT FROM fields.microbatch
        AND o.tensor_id = fields.tensor_id
      AND o.loss_op IS NOT DISTINCT FROM fields.loss_op
              AND o.phase <> 'eval'
              AND o.dtype = fields.dtype_before
              AND len(o.shape) = fields.dims_low
              AND o.shape[2:] = fields.tail_low)
QUALIFY row_number() OVER (PARTITION BY rank, tensor_id ORDER BY step, seq) = 1
ORDER BY step, rank, seq
