/*
code = "NU013"
name = "update-lost-to-rounding"
severity = "error"
phase = "optimizer"
signal = "zero_count"
message = "From step {step} on {percent} % of the elements of {tensor} ({dtype}) do not change in a step. The update is smaller than {dtype} can add. Its gradient is not zero and the learning rate reaches {lr}.{others_}"
fix = "Keep float32 master weights (autocast instead of .half()/.bfloat16()), or use stochastic rounding."
seeks = ["tensor_stats: phase = 'optimizer' AND numel > 0 AND zero_count::DOUBLE / numel > $share"]
explains = ["nothing-learnt", "lr-too-low", "silent-backend-noop", "input-dtype-or-shape-change"]
[say.others_]
one = " So it is with 1 more weight."
several = " So it is with {others} more weights."
[params.share]
value = 0.9
doc = "Share of unchanged elements."
source = "convention: of this project, nearly all"
[params.least]
value = 5
unit = "steps"
doc = "Steps."
source = "convention: of this project, one step may be odd"
[params.coming]
value = 4
unit = "steps"
doc = "Steps after it that must show it."
source = "arithmetic: with the step itself five"
[params.rest]
value = 0.6
unit = "of the steps"
doc = "Share of them."
source = "convention: of this project, six of ten"
[params.third]
value = 3.0
doc = "Part of the run that must follow, one over this."
source = "convention: of this project, a third"
[needs]
tables = ["tensor_stats", "param_groups"]
kinds = ["update", "gradient"]
steps = 5
[doc]
what = "In most steps nine in ten elements of half-precision weights do not change. This holds for the whole run or from some step on. Yet gradients and learning rate are not zero. This includes weights that became bfloat16 in the middle of the run. Their largest and smallest values show it."
why = "bfloat16 has 8 bits: an update below 1/256 of a weight is rounded away."
not_this = "float32 weights, zero gradients, embeddings (most rows have no gradient), a learning rate of zero."
source = "Spacing of the format: eps/2 relative."
*/
WITH updates AS (
    SELECT p.rank, s.step, p.tensor_id, p.tensor, p.module,
        CASE WHEN c.step IS NULL THEN p.dtype ELSE 'bfloat16' END AS dtype, p.call_order, p.optimizer_id,
        s.zero_count::DOUBLE / s.numel AS share
    FROM tensor_stats s JOIN parameters p ON p.rank = s.rank AND p.update_id = s.tensor_id
    LEFT JOIN halved_weights c ON c.rank = p.rank AND c.tensor_id = p.tensor_id AND c.step = s.step
    WHERE (p.dtype IN ('float16', 'bfloat16') OR c.step IS NOT NULL)
      AND s.phase = 'optimizer'
      AND s.numel > 0
      AND coalesce(p.class_name, '') NOT LIKE 'Embedding%'
      AND len(p.shape) >= 2
), rows_ AS (
    SELECT u.*, g.lr, q.sum_sq FROM updates u
    JOIN (SELECT rank, step, optimizer_id, max(lr) AS lr FROM param_groups GROUP BY ALL) g ON g.rank = u.rank
        AND g.step = u.step
        AND g.optimizer_id = u.optimizer_id
    JOIN param_steps q ON q.rank = u.rank AND q.step = u.step AND q.tensor_id = u.tensor_id
    WHERE g.lr > 0 AND q.sum_sq > 0
), ahead AS (
    SELECT *, share > $share AS lost,
        avg((share > $share)::INTEGER)
            OVER (ahead_ ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS lost_ahead,
        avg((share > $share)::INTEGER)
            OVER (ahead_ ROWS BETWEEN CURRENT ROW AND $coming FOLLOWING) AS lost_next,
        count(*) OVER (ahead_ ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS rows_ahead,
            min(step) OVER series AS first, max(step) OVER series AS last
    FROM rows_
    WINDOW ahead_ AS (PARTITION BY rank, tensor_id ORDER BY step), series AS (PARTITION BY rank, tensor_id)
), judged AS (
    -- from the step on after which most are lost; the last few steps of a schedule that goes to zero are
    -- always so
    SELECT rank, tensor_id, any_value(tensor) AS tensor, any_value(module) AS module,
        any_value(dtype) AS dtype, any_value(call_order) AS call_order,
        min(step) AS step, arg_min(lost_ahead * rows_ahead, step) AS lost
    FROM ahead
    WHERE lost AND lost_ahead >= $rest AND lost_next >= $rest AND last - step >= (last - first) / $third
    GROUP BY rank, tensor_id
), told AS (
    SELECT j.rank, j.tensor_id, median(r.share) AS value, max(r.lr) AS lr
    FROM judged j
    JOIN rows_ r ON r.rank = j.rank AND r.tensor_id = j.tensor_id AND r.step >= j.step
    GROUP BY j.rank, j.tensor_id
)
SELECT rank, step, module, tensor, dtype, told.value, told.lr, percent_of(value) AS percent,
    count(*) OVER (PARTITION BY rank) - 1 AS others,
    CASE WHEN others > 1 THEN 'several' WHEN others = 1 THEN 'one' END AS others_
FROM judged JOIN told USING (rank, tensor_id)
WHERE lost >= $least ORDER BY step, rank, call_order
