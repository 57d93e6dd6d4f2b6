/*
code = "OP026"
name = "frozen-by-zero-gradient"
severity = "error"
is = ["gradients-vanish"]
phase = "backward"
signal = "grad_norm"
message = "From step {step} on the gradient of {tensor} is exactly zero ({steps_} steps, to the end){and_}. It is in the graph, but no gradient flows."
fix = "Look between {tensor} and the loss for a clamp, hinge, ReLU or mask that is flat where the values lie."
slack = 20
seeks = ["param_steps: coalesce(sum_sq = 0 AND NOT missing AND nonfinite_count = 0, true)"]
[say.and_]
another_parameter = ", as is that of one other parameter"
other_parameters = ", as are those of {others} other parameters"
[params.least]
value = 6
unit = "steps"
doc = "Steps in a row, to the end of the run."
source = "convention: of this project, one batch may be met by all margins"
[params.never]
value = 20
unit = "steps"
doc = "Steps from the first on without any gradient in any parameter that count as an error."
source = "convention: of this project, as many steps without any gradient are no beginning"
[params.recent]
value = 12
unit = "steps"
doc = "Steps before, from which it is told what is usual."
source = "convention: of this project, the window of the view optimizer_series"
[params.history]
value = 8
unit = "steps"
doc = "Finite losses before that there must be."
source = "convention: of this project, fewer have no scatter to speak of"
[params.far]
value = 0.1
unit = "of the loss"
doc = "Loss before, beside its level and its start, that is far from zero."
source = "convention: of this project, a tenth"
[params.below_zero]
value = 0.01
unit = "of the largest"
doc = "How far below zero a loss has been."
source = "convention: of this project, a hundredth"
[needs]
tables = ["tensor_stats"]
kinds = ["gradient"]
steps = 8
[doc]
what = "An optimizer holds a parameter whose gradient exists and is exactly zero in all elements. It is so step after step to the end, after it had been different. Or this holds for all parameters of the run from its first step on. It counts also where the loss itself is zero in every step."
why = "The region in which the loss reacts to it was left: it cannot come back by itself."
not_this = "Gradients that are None (broken-graph), dead ReLUs (they explain it). Zero from the start in a part of them (said as a warning). A bias of a layer whose weight gets a gradient, embeddings. A loss that gradually comes to zero (a hinge whose margin is met everywhere)."
source = "Exact zeros; no threshold but persistence."
*/
-- shared
WITH looks AS (
    SELECT p.rank, p.tensor_id, p.tensor, p.module, p.module_id, p.call_order, q.step, q.sum_sq = 0
        AND NOT q.missing
        AND q.nonfinite_count = 0 AS zero
    FROM param_steps q JOIN parameters p ON p.rank = q.rank AND p.tensor_id = q.tensor_id
    WHERE p.optimizer_id IS NOT NULL AND coalesce(p.class_name, '') NOT LIKE 'Embedding%'
), ends AS (
    SELECT rank, tensor_id, any_value(tensor) AS tensor, any_value(module) AS module,
        any_value(module_id) AS module_id, any_value(call_order) AS call_order,
        max(step) FILTER (NOT zero) AS last_alive, max(step) AS last, count(*) FILTER (zero) AS zeros
            FROM looks
            GROUP BY rank, tensor_id
), course AS (
    SELECT rank, step, loss, optimizers, loss_start, loss_median, history,
        min(abs(finite(loss))) OVER (PARTITION BY rank, optimizer_id
            ORDER BY n ROWS BETWEEN $recent PRECEDING AND 1 PRECEDING) AS least_before,
        max(abs(finite(loss))) OVER (PARTITION BY rank, optimizer_id
            ORDER BY n ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS most_after
    FROM optimizer_series
), cut_off AS (
    -- a loss that is zero at once and for good, after a level far from it
    SELECT rank, step
    FROM course
    WHERE optimizers <= 1
      AND history >= $history
      AND most_after = 0
      AND least_before > $far * loss_median
      AND loss_median > $far * loss_start
)
-- detector: dead
SELECT e.*,
    (SELECT min(step)
        FROM looks l
        WHERE l.rank = e.rank
          AND l.tensor_id = e.tensor_id
          AND l.step > coalesce(e.last_alive, -1)) AS step,
    (SELECT count(*)
        FROM looks l
        WHERE l.rank = e.rank
          AND l.tensor_id = e.tensor_id
          AND l.step > coalesce(e.last_alive, -1)) AS steps_
FROM ends e
-- together
SELECT rank, step, arg_min(module, (place_of_call(call_order), tensor_id)) AS module,
    arg_min(tensor, (place_of_call(call_order), tensor_id)) AS tensor, max(steps_) AS steps_,
    0.0 AS value,
    count(*) - 1 AS others,
    CASE WHEN others = 1 THEN 'another_parameter' WHEN others > 1 THEN 'other_parameters' END AS and_,
    CASE WHEN bool_and(last_alive IS NULL)
        AND (min(steps_) < $never
            OR count(*) < (SELECT count(*)
                FROM ends a
                WHERE a.rank = d.rank)) THEN 'warning' ELSE 'error' END AS severity
FROM dead d WHERE steps_ >= $least
    -- something flows through the layer, but the loss takes differences of its outputs: their common offset
    -- cancels
    AND NOT (tensor LIKE '%bias' AND EXISTS (
        -- a parametrised weight lies below
        SELECT 1 FROM ends w JOIN module_tree t ON t.rank = w.rank AND t.module_id = w.module_id
        WHERE t.rank = d.rank
          AND t.ancestor_id = d.module_id
          AND w.tensor NOT LIKE '%bias'
          AND w.last_alive >= d.step))
    -- where the loss is zero there is nothing left to learn, where it is lost something else is wrong; but
    -- not from the first step on
    AND (NOT EXISTS (SELECT 1
        FROM steps z
        WHERE z.rank = d.rank AND z.step >= d.step
        GROUP BY z.rank
        HAVING coalesce(median(finite(z.loss)), 0) = 0)
        -- but nobody learns everything in one step: a margin that is met by more and more leaves zeros here
        -- and there before
        OR d.step IN (SELECT step FROM cut_off c WHERE c.rank = d.rank)
        -- and zero is not the least of a loss that has been below it
        OR (SELECT min(finite(z.loss))
            FROM steps z
            WHERE z.rank = d.rank AND z.step < d.step) < -$below_zero * (SELECT max(abs(finite(z.loss)))
            FROM steps z
            WHERE z.rank = d.rank AND z.step < d.step)
        OR d.last_alive IS NULL
          AND d.steps_ >= $never
          AND NOT EXISTS (FROM steps z WHERE z.rank = d.rank AND z.loss IS DISTINCT FROM 0 AND z.completed))
GROUP BY rank, step ORDER BY severity, step, rank
