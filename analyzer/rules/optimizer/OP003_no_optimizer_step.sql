/*
code = "OP003"
name = "no-optimizer-step"
severity = "error"
phase = "optimizer"
signal = "stepped"
message = "From step {step} on backward ran {passes} times in {steps} iterations, but {what_}."
fix = "Call optimizer.step() after backward (scaler.step(optimizer) with a GradScaler); check the condition round it, such as an accumulation counter that never matches."
explains = ["parameters-not-in-optimizer"]
reach = 5
[params.steps]
value = 3
unit = "iterations"
doc = "Iterations without a step, to the end of the run."
[params.gap]
value = 3
unit = "times"
doc = "The stretch must be longer than this many times the longest earlier one: inner loops of adversarial training do not step."
[params.passes]
value = 8
unit = "passes"
doc = "Backward passes in a last, open iteration that count as missing steps where no step was ever seen; beside earlier steps four times their passes."
[needs]
tables = ["steps"]
[doc]
what = "Backward passes go on, an optimizer exists, and from some iteration to the end of the run it never steps, without a GradScaler that skipped it; or one of several optimizers stops taking its turn while the backward of its turn goes on."
why = "Everything looks busy and nothing learns."
not_this = "Steps that a GradScaler skips, accumulation, inner loops that step in the end, scripts without an optimizer."
source = "Counts."
*/
WITH iterations AS (
    SELECT rank, step, bool_or(coalesce(stepped, false) OR coalesce(skipped_by_scaler, false)) AS stepped, sum(coalesce(microbatches, 0)) AS passes
    FROM steps GROUP BY rank, step
), last_ AS (
    SELECT rank, max(step) FILTER (stepped) AS last_stepped, max(passes) FILTER (stepped) AS usual FROM iterations GROUP BY rank
), earlier AS (
    SELECT rank, max(gap) AS gap FROM (
        SELECT i.rank, count(*) AS gap FROM (
            SELECT *, count(CASE WHEN stepped THEN 1 END) OVER (PARTITION BY rank ORDER BY step) AS island FROM iterations) i
        JOIN last_ l ON l.rank = i.rank AND i.step < l.last_stepped WHERE NOT i.stepped GROUP BY i.rank, i.island)
    GROUP BY rank
), tail AS (
    SELECT i.rank, min(i.step) AS step, count(*) AS steps, sum(i.passes) AS passes, arg_max(i.passes, i.step) AS open_passes, l.usual, l.last_stepped
    FROM iterations i JOIN last_ l ON l.rank = i.rank
    WHERE i.step > coalesce(l.last_stepped, -1) AND i.passes > 0 GROUP BY i.rank, l.usual, l.last_stepped
), turns AS (
    -- an optimizer that took turns with others and no longer does
    SELECT rank, optimizer_id, min(step) AS first_stepped, max(step) AS last_stepped, count(*) AS steps FROM steps
    WHERE stepped AND optimizer_id IS NOT NULL GROUP BY rank, optimizer_id
), missing_turn AS (
    -- its place is taken by iterations of backward without a step, of which there were none as long as it stepped
    SELECT u.rank, u.optimizer_id, u.last_stepped, min(i.step) FILTER (NOT i.stepped AND i.passes > 0) AS step, count(*) FILTER (NOT i.stepped AND i.passes > 0) AS steps,
        sum(i.passes) FILTER (NOT i.stepped) AS passes
    FROM turns u JOIN iterations i ON i.rank = u.rank AND i.step > u.last_stepped
    WHERE u.steps >= $steps AND NOT EXISTS (
        SELECT 1 FROM iterations e WHERE e.rank = u.rank AND NOT e.stepped AND e.passes > 0 AND e.step BETWEEN u.first_stepped AND u.last_stepped)
    GROUP BY u.rank, u.optimizer_id, u.last_stepped, u.steps, u.first_stepped
    HAVING count(*) FILTER (NOT i.stepped AND i.passes > 0) >= $steps AND bool_or(i.stepped)
      AND count(*) FILTER (NOT i.stepped AND i.passes > 0) >= 0.4 * count(*) * u.steps / (u.last_stepped - u.first_stepped + 1)
)
SELECT t.rank, t.step, 0.0 AS value, t.steps, t.passes, t.last_stepped, 'no optimizer stepped: the weights stay as they are' AS what_
FROM tail t LEFT JOIN earlier e ON e.rank = t.rank
WHERE ((t.steps >= $steps AND t.steps > $gap * coalesce(e.gap, 0))
    OR (t.open_passes >= $passes AND t.open_passes >= 4 * coalesce(t.usual, 0) AND (SELECT status FROM exits) = 'completed'))
  AND (EXISTS (SELECT 1 FROM tensors x WHERE x.rank = t.rank AND x.optimizer_id IS NOT NULL)
    OR EXISTS (SELECT 1 FROM param_groups x WHERE x.rank = t.rank)
    OR EXISTS (SELECT 1 FROM events x WHERE x.rank = t.rank AND x.event = 'optimizer-found'))
UNION ALL BY NAME
SELECT m.rank, m.step, 0.0 AS value, m.steps, m.passes, m.last_stepped,
    'optimizer ' || m.optimizer_id || ' no longer took its turn beside the others: what it holds stays as it is' AS what_
FROM missing_turn m
ORDER BY step, rank
