/*
code = "OP003"
name = "no-optimizer-step"
severity = "error"
phase = "optimizer"
signal = "stepped"
message = "From step {step} on {ran_}, but {what_}."
fix = "Call optimizer.step() after backward (scaler.step(optimizer) with a GradScaler). Check the condition around it, such as an accumulation counter that never matches. Check that each loss is followed by the step of its own optimizer."
seeks = [
    [
        "steps: microbatches > 0 AND NOT coalesce(stepped, false) AND NOT coalesce(skipped_by_scaler, false) OR stepped AND optimizer_id <> 0 OR carried_grad_norm > 0",
        "events: event = 'optimizer-found'",
    ],
]
explains = ["parameters-not-in-optimizer"]
reach = 5
[say.ran_]
passes = "backward ran {passes} times in {steps} iterations"
batches = "{passes} batches went through the model with gradients"
[say.what_]
nothing_follows = "no backward and no step of an optimizer followed: the weights stay as they are"
nothing_stepped = "no optimizer stepped: the weights stay as they are"
turn_is_missing = "optimizer {optimizer_id} no longer took its turn beside the others: what it holds stays as it is"
never_took_its_turn = "optimizer {optimizer_id} never stepped, while others did after backward passes of their own: what it holds stays as it is"
another_took_its_turn = "optimizer {optimizer_id} never stepped, which holds {held} parameters of {model} (first {tensor}): in its turn optimizer {other} stepped again, with gradients that it had used before"
partner_is_missing = "optimizer {optimizer_id} no longer stepped with the others, though gradients still reach {module}: what it holds stays as it is"
[params.steps]
value = 3
unit = "iterations"
doc = "Iterations without a step, to the end of the run."
source = "convention: of this project, a scaler that begins skips two steps or so"
[params.gap]
value = 3
unit = "times"
doc = "The stretch must be longer than this many times the longest earlier one: inner loops of adversarial training do not step."
source = "own history"
[params.passes]
value = 8
unit = "passes"
doc = "Backward passes in a last, open iteration that count as missing steps where no step was ever seen. Beside earlier steps it is four times their passes."
source = "convention: of this project, as many passes in one iteration are more than the usual accumulation"
[params.batches]
value = 20
unit = "batches"
doc = "Batches without any backward."
source = "convention: of this project, so many are no accumulation"
[params.together]
value = 8
unit = "iterations"
doc = "Iterations in which two optimizers stepped after one backward. Then as many in which only the other did, to the end of the run."
source = "convention: of this project, as many iterations on both sides are no chance"
[params.open]
value = 4
unit = "times"
doc = "Passes of the open iteration, over those of earlier ones."
source = "own history"
[params.turns]
value = 0.4
unit = "of its turns"
doc = "Share of its turns that go by."
source = "convention: of this project, two of five"
[params.never]
value = 10
unit = "iterations"
doc = "Iterations whose gradients are cleared and of which none makes a step, beside an optimizer that never steps."
source = "convention: of this project, as many are no phase of a schedule"
[params.together_before]
value = 0.9
unit = "of the steps"
doc = "Share of the earlier steps in which they stepped together."
source = "convention: of this project, one of ten may not be seen"
[params.rounding]
value = 1e-5
doc = "Share by which two norms of the same gradients may differ."
source = "arithmetic: some hundred roundings of float32, 2^-24: the order of adding is not the same everywhere"
[needs]
tables = ["steps"]
[doc]
what = "Backward passes go on, an optimizer exists, and from some iteration to the end of the run it never steps. No GradScaler skipped it. Or a script comes to its end, and no backward ever followed the forwards of its model in train mode. Or one of several optimizers stops taking its turn while the backward of its turn goes on. Or an optimizer never steps, while others do and iterations with a backward and cleared gradients go by without a step. Or an optimizer never steps, and another steps in its turn: after a backward that added nothing to the gradients that it had used. Or two optimizers stepped after the same backward, and only the other still does. Gradients still reach what the first one holds. That is a warning where something before it trains on, as then its own may have been turned off."
why = "Everything looks busy and nothing learns."
not_this = "Steps that a GradScaler skips, accumulation, inner loops that step in the end, scripts without an optimizer. An optimizer whose parameters gradients no longer reach or a later one has taken over."
source = "Counts."
*/
-- shared
WITH iterations AS (
    SELECT rank, step, bool_or(coalesce(stepped, false) OR coalesce(skipped_by_scaler, false)) AS stepped,
        sum(coalesce(microbatches, 0)) AS passes
    FROM steps GROUP BY rank, step
), turns AS (
    -- an optimizer that took turns with others and no longer does
    SELECT rank, optimizer_id, min(step) AS first_stepped, max(step) AS last_stepped, count(*) AS steps
    FROM steps
    WHERE stepped AND optimizer_id IS NOT NULL GROUP BY rank, optimizer_id
)
-- detector: nothing_steps
WITH last_ AS (
    SELECT rank, max(step) FILTER (stepped) AS last_stepped, max(passes) FILTER (stepped) AS usual
    FROM iterations
    GROUP BY rank
), earlier AS (
    SELECT rank, max(gap) AS gap FROM (
        SELECT i.rank, count(*) AS gap FROM (
            SELECT *, count(CASE WHEN stepped THEN 1 END) OVER (PARTITION BY rank ORDER BY step) AS island
            FROM iterations) i
        JOIN last_ l ON l.rank = i.rank AND i.step < l.last_stepped
        WHERE NOT i.stepped
        GROUP BY i.rank, i.island)
    GROUP BY rank
), tail AS (
    SELECT i.rank, min(i.step) AS step, count(*) AS steps, sum(i.passes) AS passes,
        arg_max(i.passes, i.step) AS open_passes, l.usual, l.last_stepped
    FROM iterations i JOIN last_ l ON l.rank = i.rank
    WHERE i.step > coalesce(l.last_stepped, -1) AND i.passes > 0 GROUP BY i.rank, l.usual, l.last_stepped
)
SELECT t.rank, t.step, 0.0 AS value, t.steps, t.passes, t.last_stepped, 'nothing_stepped' AS what_,
    'passes' AS ran_
FROM tail t LEFT JOIN earlier e ON e.rank = t.rank
-- where the recorder has lost sight of the optimizers, no step of theirs is seen
WHERE NOT EXISTS (FROM events f
    WHERE f.rank = t.rank
      AND f.event = 'recorder-fault'
      AND json_extract_string(f.detail, '$.part') = 'optimizer')
  AND ((t.steps >= $steps AND t.steps > $gap * coalesce(e.gap, 0))
    OR (t.open_passes >= $passes
        AND t.open_passes >= $open * coalesce(t.usual, 0)
        AND (SELECT by_itself FROM script_ended)))
  AND (EXISTS (SELECT 1 FROM tensors x WHERE x.rank = t.rank AND x.optimizer_id IS NOT NULL)
    OR EXISTS (SELECT 1 FROM param_groups x WHERE x.rank = t.rank)
    OR EXISTS (SELECT 1 FROM events x WHERE x.rank = t.rank AND x.event = 'optimizer-found'))
-- detector: no_backward
-- a script that came to its end, whose model went through batches in train mode and with gradients
SELECT b.rank, min(b.step) AS step, 0.0 AS value, count(*) AS passes, 'nothing_follows' AS what_,
    'batches' AS ran_
FROM batches b
WHERE b.role = 'input' AND b.phase <> 'eval'
  AND (SELECT by_itself FROM script_ended)
  AND NOT EXISTS (FROM iterations i WHERE i.rank = b.rank AND (i.stepped OR i.passes > 0))
  AND EXISTS (FROM events e WHERE e.rank = b.rank AND e.event = 'optimizer-found')
  AND NOT EXISTS (FROM events f WHERE f.rank = b.rank AND f.event = 'recorder-fault')
  AND EXISTS (FROM module_modes m WHERE m.rank = b.rank AND m.training AND m.grad)
GROUP BY b.rank
HAVING count(*) >= $batches
-- detector: turn_is_missing
WITH missing_turn AS (
    -- its place is taken by iterations of backward without a step, of which there were none as long as it
    -- stepped
    SELECT u.rank, u.optimizer_id, u.last_stepped,
        min(i.step) FILTER (NOT i.stepped AND i.passes > 0) AS step,
        count(*) FILTER (NOT i.stepped AND i.passes > 0) AS steps,
        sum(i.passes) FILTER (NOT i.stepped) AS passes
    FROM turns u JOIN iterations i ON i.rank = u.rank AND i.step > u.last_stepped
    WHERE u.steps >= $steps AND NOT EXISTS (
        SELECT 1
        FROM iterations e
        WHERE e.rank = u.rank
          AND NOT e.stepped
          AND e.passes > 0
          AND e.step BETWEEN u.first_stepped AND u.last_stepped)
    GROUP BY u.rank, u.optimizer_id, u.last_stepped, u.steps, u.first_stepped
    HAVING count(*) FILTER (NOT i.stepped AND i.passes > 0) >= $steps AND bool_or(i.stepped)
      AND count(*) FILTER (NOT i.stepped
          AND i.passes > 0) >= $turns * count(*) * u.steps / (u.last_stepped - u.first_stepped + 1)
)
SELECT m.rank, m.step, 0.0 AS value, m.steps, m.passes, m.last_stepped, m.optimizer_id,
    'turn_is_missing' AS what_,
    'passes' AS ran_
FROM missing_turn m
-- detector: partner_is_missing
WITH together AS (
    -- iterations in which several optimizers stepped after one backward, and those in which one of them was
    -- alone
    SELECT rank, step, count(DISTINCT optimizer_id) FILTER (stepped) >= 2
        AND count(*) FILTER (microbatches > 0) = 1 AS joint, sum(coalesce(microbatches, 0)) AS passes
    FROM steps GROUP BY rank, step
), partners AS (
    SELECT u.rank, u.optimizer_id, u.last_stepped, min(i.step) FILTER (i.step > u.last_stepped) AS step,
        count(*) FILTER (i.step > u.last_stepped) AS steps,
        sum(i.passes) FILTER (i.step > u.last_stepped) AS passes
    FROM turns u JOIN together i ON i.rank = u.rank AND i.step >= u.first_stepped
    WHERE u.steps >= $together
      AND EXISTS (FROM turns o
          WHERE o.rank = u.rank
            AND o.optimizer_id <> u.optimizer_id
            AND o.first_stepped <= u.first_stepped
            AND o.last_stepped >= u.last_stepped + $together)
    GROUP BY u.rank, u.optimizer_id, u.steps, u.first_stepped, u.last_stepped
    HAVING count(*) FILTER (i.step > u.last_stepped) >= $together
        AND count(*) FILTER (i.joint
            AND i.step <= u.last_stepped) >= $together_before * (u.last_stepped - u.first_stepped + 1)
), reached AS (
    -- the first module that it holds, where gradients still arrive at what that module puts out
    SELECT p.rank, p.optimizer_id, arg_min(p.module, p.call_order) AS module, min(p.call_order) AS call_order,
        arg_min(p.model, p.call_order) AS model
    FROM parameters p JOIN partners q ON q.rank = p.rank AND q.optimizer_id = p.optimizer_id
    WHERE (SELECT count(DISTINCT s.step)
        FROM tensor_stats s
        JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id
        WHERE t.kind = 'activation_gradient'
          AND s.rank = p.rank
          AND t.module_id = p.module_id
          AND s.step > q.last_stepped
          AND s.sum_sq > 0) >= $steps
    GROUP BY p.rank, p.optimizer_id
)
SELECT q.rank, q.step, r.module, 0.0 AS value, q.steps, q.passes, q.last_stepped, q.optimizer_id,
    'partner_is_missing' AS what_,
    'passes' AS ran_,
    CASE WHEN EXISTS (FROM parameters e
        WHERE e.rank = r.rank
          AND e.model = r.model
          AND e.call_order < r.call_order
          AND e.optimizer_id IS NOT NULL
          AND e.requires_grad) THEN 'warning' END AS severity
FROM partners q JOIN reached r ON r.rank = q.rank AND r.optimizer_id = q.optimizer_id
-- detector: never_took_its_turn
WITH idle AS (
    SELECT rank, min(optimizer_id) AS optimizer_id
    FROM (SELECT DISTINCT rank, optimizer_id FROM param_groups)
    WHERE (rank, optimizer_id) NOT IN (SELECT (rank, optimizer_id) FROM turns)
    GROUP BY rank HAVING count(*) = 1
), unused AS (
    SELECT s.rank, count(*) AS steps, min(s.step) AS step, sum(s.microbatches) AS passes
    FROM steps s JOIN iterations i ON i.rank = s.rank AND i.step = s.step
    WHERE NOT i.stepped AND s.microbatches > 0 AND s.zero_grads > 0
    GROUP BY s.rank
)
SELECT u.rank, u.step, 0.0 AS value, u.steps, u.passes, d.optimizer_id, 'never_took_its_turn' AS what_,
    'passes' AS ran_
FROM unused u
JOIN idle d ON d.rank = u.rank
WHERE u.steps >= $never
  AND u.steps >= $turns * (SELECT count(*) FROM iterations i WHERE i.rank = u.rank AND i.stepped)
  AND EXISTS (FROM turns t WHERE t.rank = u.rank AND t.steps >= $never)
-- detector: another_took_its_turn
WITH used AS (
    SELECT *, lag(grad_norm) OVER w AS before, lag(stepped) OVER w AS stepped_before FROM steps
    WHERE optimizer_id IS NOT NULL
    WINDOW w AS (PARTITION BY rank, optimizer_id ORDER BY step)
), again AS (
    -- its gradients are what its last step has used
    SELECT rank, step, optimizer_id, microbatches, min(step) OVER (PARTITION BY rank, optimizer_id) AS first
    FROM used
    WHERE stepped AND stepped_before AND before > 0 AND isfinite(before)
      AND abs(carried_grad_norm - before) <= $rounding * before
      AND abs(grad_norm - before) <= $rounding * before
), reached AS (
    -- optimizers that never step, where gradients arrive at the outputs of modules that they hold
    SELECT DISTINCT p.rank, p.optimizer_id, s.step
    FROM parameters p
    JOIN tensors t ON t.rank = p.rank AND t.module_id = p.module_id AND t.kind = 'activation_gradient'
    JOIN tensor_stats s ON s.rank = t.rank AND s.tensor_id = t.tensor_id AND s.sum_sq > 0
    SEMI JOIN again a ON a.rank = s.rank AND a.step = s.step AND a.microbatches > 0
    WHERE p.optimizer_id IS NOT NULL
      AND (p.rank, p.optimizer_id) NOT IN (SELECT (rank, optimizer_id) FROM turns)
), turned AS (
    -- and a backward has run since
    SELECT a.rank, a.optimizer_id AS other, r.optimizer_id, min(a.first) AS step, count(*) AS steps,
        sum(a.microbatches) AS passes
    FROM again a JOIN reached r ON r.rank = a.rank AND r.step = a.step
    WHERE a.microbatches > 0
    GROUP BY a.rank, a.optimizer_id, r.optimizer_id HAVING count(*) >= $together
)
SELECT u.rank, u.step, u.optimizer_id, u.other, u.steps, u.passes, 0.0 AS value, count(*) AS held,
    arg_min(p.model, p.call_order) AS model, arg_min(p.tensor, (p.call_order, p.tensor_id)) AS tensor,
    'another_took_its_turn' AS what_,
    'passes' AS ran_
FROM turned u JOIN parameters p ON p.rank = u.rank AND p.optimizer_id = u.optimizer_id
GROUP BY ALL
-- together
ORDER BY step, rank
