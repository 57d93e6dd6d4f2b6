/*
code = "OP001"
name = "zero-grad-missing"
severity = "error"
phase = "backward"
signal = "carried_grad_norm"
message = "At step {step}, when the first backward began, the gradients still had norm {value}, {share_}. The optimizer had used {previous} in the step before. This happened in {steps} of {rows_} steps. Gradients of old batches add up."
fix = "Call optimizer.zero_grad() once per optimizer step, before the first backward of the next. Note that model.zero_grad() clears only the parameters of that model."
seeks = ["steps: carried_grad_norm > 0"]
explains = ["exploding-gradients", "loss-off-course", "lr-too-high", "nonfinite-tensor", "shuffled-labels", "representation-collapse"]
[say.share_]
what_was_used = "exactly what was used"
part_of_what_was_used = "a part of what was used"
left_by_another_loss = "left there by the loss of another optimizer, or by a zero_grad that reaches only a part"
[params.steps]
value = 3
unit = "steps"
doc = "Consecutive steps that began with old gradients."
source = "convention: of this project, as many as show that it is no warm-up of the script"
[params.same]
value = 0.02
doc = "How closely the carried norm must equal the norm that the optimizer had used."
source = "convention: of this project, the carried gradient is what was used, but for what clipping and a scaler round"
[params.habit]
value = 10
unit = "steps"
doc = "The same in three cases. Other optimizers step as well. Or only a part is left that never equals the whole. Or steps with and without them take turns."
source = "convention: of this project, where other things change as well, three times as many"
[params.grown]
value = 5
doc = "How many times as large the gradients must then become."
source = "own history"
[needs]
tables = ["steps"]
columns = ["steps.carried_grad_norm"]
steps = 4
[doc]
what = "At the first backward after an optimizer step the gradients of that step are still there. This happens in several steps in a row, or every second, third … time. Then zero_grad keeps another rhythm than the optimizer. Or the gradients of another optimizer's loss are still there, because zero_grad came ahead of it."
why = "The optimizer then follows the sum of all gradients so far, which grows and lags."
not_this = "Accumulation inside a step (only its first backward is looked at) or over several steps of another optimizer. Master copies of weights, whose gradients are put there again for each step. Gradients that are multiplied by a factor below one instead of cleared. Where several optimizers step, or a part is left, the norm must also grow, unless the rest is another optimizer's. The loss of a generator leaves gradients in the discriminator, which zero_grad must clear ahead of its own backward."
source = "Exact: the gradient before the first backward must be None or zero."
*/
-- shared
WITH spans AS (
    SELECT rank, optimizer_id, min(step) AS first, max(step) AS last
    FROM optimizer_series
    GROUP BY rank, optimizer_id
), shared AS (
    -- those that step while another does; one that takes over for a later stage is alone in it
    SELECT DISTINCT a.rank, a.optimizer_id
    FROM spans a
    JOIN spans b ON b.rank = a.rank
        AND b.optimizer_id <> a.optimizer_id
        AND b.first <= a.last
        AND b.last >= a.first
), copies AS (
    -- optimizers that hold copies of weights, which the modules keep for themselves: the copy's gradient is
    -- put there again for each step,
    -- no backward adds to it
    SELECT rank, optimizer_id
    FROM tensors o
    WHERE kind = 'parameter' AND optimizer_id IS NOT NULL
    GROUP BY ALL
    HAVING bool_and(module_id IS NULL AND EXISTS (
        FROM tensors m
        WHERE m.rank = o.rank
          AND m.kind = 'parameter'
          AND m.module_id IS NOT NULL
          AND m.optimizer_id IS NULL
          AND m.shape = o.shape))
), rows_ AS (
    SELECT * REPLACE (CASE WHEN (rank, optimizer_id) IN (SELECT (rank, optimizer_id)
        FROM shared) THEN optimizers ELSE 1 END AS optimizers),
        lag(grad_norm) OVER w AS previous, lag(stepped) OVER w AS previous_stepped,
        lag(step) OVER w AS previous_step
    FROM optimizer_series
    WHERE (rank, optimizer_id) NOT IN (SELECT (rank, optimizer_id) FROM copies)
    WINDOW w AS (PARTITION BY rank, optimizer_id ORDER BY n)
), flagged AS (
    SELECT *,
        coalesce(carried_grad_norm > 0
            AND previous_stepped
            AND (NOT isfinite(carried_grad_norm) OR previous IS NULL OR NOT isfinite(previous)
        OR abs(carried_grad_norm - previous) <= $same * previous), false) AS carried,
        -- where only some are zeroed, what is left is a part of what was used, until its sum outgrows the
        -- rest
        coalesce(carried_grad_norm > 0
            AND previous_stepped
            AND (NOT isfinite(carried_grad_norm) OR previous IS NULL OR NOT isfinite(previous)
        OR carried_grad_norm <= (1 + $same) * previous), false) AS partly
    FROM rows_ WHERE n > 0
), partly_ AS (
    SELECT *, n - row_number() OVER (PARTITION BY rank, optimizer_id, partly ORDER BY n) AS stretch
    FROM flagged
), islands AS (
    SELECT *, n - row_number() OVER (PARTITION BY rank, optimizer_id, carried ORDER BY n) AS island,
        CASE WHEN optimizers <= 1
            AND partly THEN min(n) OVER (PARTITION BY rank, optimizer_id, partly, stretch) ELSE n END AS since
    FROM partly_
)
-- detector: whole
SELECT rank, optimizer_id, optimizers, min(since) AS since, max(n) AS until
FROM islands WHERE carried
GROUP BY rank, optimizer_id, island, optimizers
HAVING count(*) >= $steps AND isfinite(arg_min(carried_grad_norm, n))
-- detector: part
-- where the rest stays as large as what is left, the two never become equal, but what is left grows all
-- the same
SELECT rank, optimizer_id, optimizers, min(n) AS since, max(n) AS until
FROM partly_ WHERE partly AND optimizers <= 1
GROUP BY rank, optimizer_id, stretch, optimizers
HAVING count(*) >= $habit
    AND max(finite(grad_norm)) > $grown * arg_min(previous, n)
    AND max(finite(carried_grad_norm)) > $grown * arg_min(carried_grad_norm, n)
    -- always the same part of it: gradients that the script makes smaller by a factor instead of clearing
    -- them
    AND max(finite(carried_grad_norm / previous)) - min(finite(carried_grad_norm / previous)) > $same
-- detector: every_few_steps
WITH turns AS (
    -- zero_grad on another count of microbatches than the step: what the optimizer has used is there again
    -- every k-th time
    SELECT rank, optimizer_id, optimizers, min(n) AS since, max(n) AS until, true AS turns_
    FROM flagged WHERE carried AND stepped AND isfinite(carried_grad_norm)
      -- a second step with the same gradients, to which nothing was added, takes another one's turn
      AND NOT coalesce(abs(grad_norm - carried_grad_norm) <= $same * carried_grad_norm, false)
    GROUP BY rank, optimizer_id, optimizers
    HAVING count(*) >= $habit AND $habit * count(*) >= max(n) - min(n)
)
SELECT * FROM turns t
WHERE NOT EXISTS (FROM whole a
    WHERE a.rank = t.rank AND a.optimizer_id = t.optimizer_id AND a.since <= t.since)
  -- beside other optimizers: in between they were cleared
  AND (optimizers <= 1 OR $habit <= (SELECT count(*) FROM flagged f
      WHERE f.rank = t.rank AND f.optimizer_id = t.optimizer_id AND f.n BETWEEN t.since AND t.until
        AND f.carried_grad_norm = 0 AND f.stepped AND f.previous_stepped))
-- detector: others
-- zero_grad stands after the step instead of ahead of the backward: what the loss of another optimizer
-- then leaves in these parameters is
-- used with the next batch, in one step after the other
SELECT rank, optimizer_id, optimizers, min(n) AS since, max(n) AS until, true AS foreign_
FROM (
    SELECT *, n - row_number() OVER (PARTITION BY rank, optimizer_id, foreign_ ORDER BY n) AS stretch
    FROM (
        SELECT *, coalesce(optimizers > 1 AND stepped AND previous_stepped AND step - previous_step = 1
            AND carried_grad_norm > 0 AND isfinite(carried_grad_norm), false) AS foreign_
        FROM flagged
    )
) WHERE foreign_
GROUP BY rank, optimizer_id, stretch, optimizers
-- where it is always what the optimizer has used itself, the script puts new gradients in the place of
-- the old ones
HAVING count(*) >= $habit AND max(abs(carried_grad_norm - previous) / previous) > $same
-- together
SELECT w.rank, min(f.step) AS step, arg_min(f.carried_grad_norm, f.n) AS value,
    arg_min(f.previous, f.n) AS previous, count(*) FILTER (f.carried OR f.partly OR w.foreign_) AS steps,
    count(*) AS rows_, w.optimizer_id,
    CASE WHEN w.foreign_ THEN 'left_by_another_loss' WHEN arg_min(f.carried, f.n) THEN 'what_was_used'
        ELSE 'part_of_what_was_used' END AS share_,
    arg_min(f.grad_norm, f.n) AS grad_norm, max(finite(f.grad_norm)) AS grad_norm_highest,
        max(f.step) AS until_step
FROM (
    SELECT rank, optimizer_id, optimizers, since, max(until) AS until, coalesce(foreign_, false) AS foreign_,
        bool_or(turns_) AS turns_
    FROM found
    GROUP BY rank, optimizer_id, optimizers, since, foreign_
) w
JOIN flagged f ON f.rank = w.rank AND f.optimizer_id = w.optimizer_id AND f.n BETWEEN w.since AND w.until
GROUP BY w.rank, w.optimizer_id, w.optimizers, w.since, w.foreign_
HAVING w.optimizers <= 1
    OR w.foreign_
    OR bool_or(w.turns_)
    OR (count(*) >= $habit AND max(finite(f.grad_norm)) > $grown * arg_min(f.previous, f.n))
ORDER BY step, rank, optimizer_id
