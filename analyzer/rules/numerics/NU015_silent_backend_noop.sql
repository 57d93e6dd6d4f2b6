/*
code = "NU015"
name = "silent-backend-noop"
severity = "error"
phase = "optimizer"
signal = "update_norm"
message = "From step {step} on optimizer.step() leaves {tensor} exactly as it was. Its gradient is not zero (norm {value}), its learning rate is {lr}, and nothing was skipped or rounded."
fix = "Make the parameter contiguous, upgrade torch, or check a custom optimizer: its step does nothing here."
seeks = ["tensor_stats: phase = 'optimizer' AND sum_sq = 0"]
explains = ["nothing-learnt"]
[params.tiny]
value = 1e-6
doc = "Update over weights of the whole group: where the others hardly move either, this one is rounded away."
source = "arithmetic: about eight times the resolution of float32, 2^-23"
[params.least]
value = 3
unit = "steps"
doc = "Steps in a row."
source = "convention: of this project, one step may be skipped"
[params.zero]
value = 1e-38
doc = "Norm of an update below which it is zero."
source = "arithmetic: about the smallest normal number of float32, 1.2e-38"
[params.rate]
value = 1e-5
doc = "Learning rate from which an update shows in float32."
source = "convention: of this project, less is rounded away"
[params.expected]
value = 1e-6
doc = "Size of an update, lr times gradient, that shows in float32."
source = "convention: of this project, eight times its resolution of 1.2e-7"
[params.gradient]
value = 1e-7
doc = "Root mean square of a gradient that is one."
source = "arithmetic: about the resolution of float32, 1.2e-7"
[params.elements]
value = 4
unit = "elements"
doc = "Elements of a parameter."
source = "convention: of this project, fewer may stay as they are by chance"
[params.part]
value = 1e-5
unit = "of its largest"
doc = "Gradient over its largest, from which it is one."
source = "convention: of this project, rounding"
[params.overflow]
value = 1e38
doc = "Sum of squares near the end of float32."
source = "arithmetic: it ends at 3.4e38"
[needs]
tables = ["tensor_stats", "param_groups"]
kinds = ["update", "gradient"]
steps = 4
[doc]
what = "An optimizer holds a float32 parameter with a gradient and a learning rate that are not zero. Every element of it is the same after the step. All elements are compared, or the sums of the whole weight are the same to the last bit."
why = "The weights do not train though all that can be seen from outside is in order."
not_this = "Steps that a scaler left out, half precision, tiny learning rates, zero or vanishing gradients. Gradients far below an earlier one (Adam and similar optimizers divide by it), line searches that stand still (LBFGS)."
source = "Arithmetic: lr times gradient is far above the spacing of float32."
*/
WITH still AS (
    -- few tensors ever stand still: only they are worth the joins below
    SELECT s.rank, s.tensor_id
    FROM tensor_stats s
    JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id
    WHERE t.kind = 'update' AND s.phase = 'optimizer' AND s.sum_sq = 0
    GROUP BY s.rank, s.tensor_id HAVING count(*) >= $least
), weights AS (
    -- exact sums of the whole weight after each step: what a sample of its elements does not show, they do
    SELECT s.rank, s.step, p.update_id, s.sum = lag(s.sum) OVER w
        AND s.sum_sq = lag(s.sum_sq) OVER w
        AND s.step = 1 + lag(s.step) OVER w AS same
    FROM tensor_stats s
    JOIN parameters p ON p.rank = s.rank AND p.tensor_id = s.tensor_id
    JOIN still t ON t.rank = p.rank AND t.tensor_id = p.update_id
    WHERE s.phase = 'optimizer' WINDOW w AS (PARTITION BY s.rank, s.tensor_id ORDER BY s.step, s.seq)
), looks AS (
    SELECT p.rank, s.step, p.tensor_id, p.tensor, p.module, p.call_order, s.sum_sq AS moved, s.numel,
        q.sum_sq AS gradient, q.numel AS gradient_numel, g.lr, g.optimizer,
        coalesce(g.update_norm BETWEEN $zero AND $tiny * g.weight_norm, false) AS tiny
    FROM tensor_stats s JOIN still USING (rank, tensor_id)
    JOIN parameters p ON p.rank = s.rank AND p.update_id = s.tensor_id
    JOIN param_steps q ON q.rank = s.rank
        AND q.step = s.step
        AND q.tensor_id = p.tensor_id
        AND NOT q.missing
        AND q.nonfinite_count = 0
    JOIN param_groups g ON g.rank = s.rank
        AND g.step = s.step
        AND g.optimizer_id = p.optimizer_id
        AND g.group_id = p.group_id
    JOIN (SELECT DISTINCT rank, step, optimizer_id
        FROM steps
        WHERE stepped AND NOT coalesce(skipped_by_scaler, false)) d ON d.rank = s.rank
        AND d.step = s.step
        AND d.optimizer_id = p.optimizer_id
    LEFT JOIN weights w ON w.rank = s.rank AND w.step = s.step AND w.update_id = s.tensor_id
    WHERE p.dtype IN ('float32', 'float64')
      AND (s.numel = p.numel OR coalesce(w.same, false))
      AND coalesce(p.class_name, '') NOT LIKE 'Embedding%'
      AND NOT EXISTS (FROM halved_weights h WHERE h.rank = s.rank AND h.step <= s.step)
      -- what the optimizer saw is the last that was seen of the gradient: it may have been cleared since
      -- backward
      AND coalesce((SELECT arg_max(CASE WHEN coalesce(e.missing, false) THEN 0 ELSE e.sum_sq END, e.seq)
          FROM tensor_stats e
          WHERE e.rank = s.rank
            AND e.step = s.step
            AND e.tensor_id = p.gradient_id
            AND e.seq < s.seq), q.sum_sq) > 0
), judged AS (
    SELECT *, moved = 0
        AND gradient > 0
        AND lr > $rate
        AND (optimizer NOT LIKE '%SGD%' OR lr * sqrt(gradient / gradient_numel) > $expected)
        AND sqrt(gradient / gradient_numel) > $gradient
          AND optimizer NOT LIKE '%LBFGS%'
          AND numel >= $elements
          AND NOT tiny
        -- the second moment remembers a gradient that was far larger, or has left float32 with it: the step
        -- is then rounded away
        AND (optimizer LIKE '%SGD%'
            OR sqrt(gradient) > $part * sqrt(max(gradient) OVER (PARTITION BY rank, tensor_id ORDER BY step))
            AND gradient < $overflow) AS stuck
            FROM looks
), runs AS (
    SELECT *,
        row_number() OVER (PARTITION BY rank, tensor_id
            ORDER BY step) - row_number() OVER (PARTITION BY rank, tensor_id, stuck
            ORDER BY step) AS island
    FROM judged
)
SELECT rank, min(step) AS step, any_value(module) AS module, any_value(tensor) AS tensor,
    sqrt(median(gradient)) AS value, any_value(lr) AS lr, count(*) AS steps_
FROM runs WHERE stuck GROUP BY rank, tensor_id, island HAVING count(*) >= $least
ORDER BY step, rank, any_value(call_order), tensor
