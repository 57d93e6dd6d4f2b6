/*
code = "MO003"
name = "frozen-parameters"
severity = "error"
phase = "backward"
signal = "requires_grad"
message = "From step {step} on {value} parameters{held_} do not require gradients ({names}): they never move{again_}."
fix = "Set requires_grad_(True) where they are meant to train, or leave them out of the optimizer. After a resume, freeze by the step or epoch that the training has reached."
seeks = [
    [
        "param_steps: frozen",
        "exits: phase = 'backward' AND step IS NOT NULL AND exception_message IS NOT NULL",
    ],
]
explains = ["nothing-learnt", "broken-graph", "unused-module", "python-exception"]
[say.held_]
held = " that the optimizer holds"
left_out = " that were left out of the optimizer"
[say.again_]
by_a_resume = " again. They were thawed at step {freed} and trained until a resume froze them at step {step}"
[params.rest]
value = 0.01
doc = "Learning rate at the step, as a share of its highest, up to which a parameter was put to rest before."
source = "convention: of this project, a hundredth of its highest rate: what moves there moves by a hundredth"
[params.given]
value = 3
doc = "Different gradients of a parameter with requires_grad False from which it is a master copy that the script feeds. A gradient that a freeze left behind does not change."
source = "convention: of this project, two values may be left behind by one freeze"
[params.lasting]
value = 3
unit = "steps"
doc = "Steps for which it must be frozen."
source = "convention: of this project, one may be a block under no_grad"
[params.named]
value = 3
unit = "names"
doc = "Parameters that the sentence names."
source = "convention: of this project, more would make it too long to be read"
[needs]
tables = ["tensors", "tensor_stats"]
kinds = ["gradient"]
steps = 3
or_raised = ["no-grad-fn"]
[doc]
what = "Parameters in an optimizer's groups whose requires_grad is False at every step, or from some step on to the end. Or torch refuses backward because nothing requires a gradient, and all that the optimizer holds is frozen. Or a resume freezes parameters again that the same training had thawed and trained, and nothing thaws them until the end."
why = "The optimizer skips them silently."
not_this = "Master copies, into which the script puts gradients of its own. Averages of other weights, which the script writes. Frozen parameters that no optimizer holds. Parameters that are thawed later, or whose learning rate had gone down to nothing by a schedule before. Only advice where others are thawed later: a plan that thaws part after part. Only advice where it is so from the first step on while other parameters in an optimizer train. Fine-tuning a head on a frozen backbone is such a case. Only advice where all that is held is frozen and what trains is not held, which is parameters-not-in-optimizer. A second stage or run with other frozen parts, which loads no optimizer state. A resume after which the training ends before the thaw would come again."
source = "Flags; no threshold."
*/
-- shared
WITH looks AS (
    SELECT p.rank, p.tensor_id, p.tensor, p.module, p.call_order, g.step, g.frozen,
        CASE WHEN g.frozen AND NOT g.missing AND g.sum_sq > 0 THEN g.sum_sq END AS given
    FROM param_steps g
    JOIN parameters p ON p.rank = g.rank AND p.tensor_id = g.tensor_id
    WHERE p.optimizer_id IS NOT NULL
), ends AS (
    SELECT rank, tensor_id, any_value(tensor) AS tensor, any_value(module) AS module,
        any_value(call_order) AS call_order,
        max(step) FILTER (NOT frozen) AS last_free, max(step) AS last,
            count(*) FILTER (frozen) AS frozen_steps
    FROM looks GROUP BY rank, tensor_id
    -- a master copy does not require gradients: the script puts new ones into it, and the optimizer uses them
    HAVING count(DISTINCT given) < $given
), moving AS (
    -- the optimizer moves them all the same: unintended-trainable
    SELECT p.rank, p.tensor_id
    FROM param_steps g
    JOIN parameters p ON p.rank = g.rank AND p.tensor_id = g.tensor_id
    JOIN tensor_stats u ON u.rank = p.rank AND u.tensor_id = p.update_id AND u.step = g.step
    WHERE g.frozen AND NOT g.missing AND u.sum_sq > 0
    GROUP BY p.rank, p.tensor_id HAVING count(*) >= $lasting
    UNION
    -- the script writes them, as an average of other weights
    SELECT s.rank, s.tensor_id
    FROM tensor_stats s
    JOIN param_steps g ON g.rank = s.rank AND g.tensor_id = s.tensor_id AND g.step = s.step AND g.frozen
    GROUP BY s.rank, s.tensor_id HAVING count(DISTINCT s.sum) >= $lasting
), onset AS (
    SELECT e.*, e.last_free IS NULL
        AND EXISTS (FROM ends f WHERE f.rank = e.rank AND f.last_free IS NOT NULL) AS meant,
            (SELECT min(step)
                FROM looks l
                WHERE l.rank = e.rank
                  AND l.tensor_id = e.tensor_id
                  AND l.step > coalesce(e.last_free, -1)) AS step
    FROM ends e WHERE frozen_steps >= $lasting AND (last_free IS NULL OR last_free < last - 2)
), thawed AS (
    -- a plan: one part after the other is set free, and these are not yet
    SELECT l.rank, min(l.step) AS step
    FROM looks l
    JOIN ends e ON e.rank = l.rank AND e.tensor_id = l.tensor_id
    WHERE NOT l.frozen AND e.frozen_steps >= $lasting AND e.last_free = e.last
      AND l.step > (SELECT max(b.step)
          FROM looks b
          WHERE b.rank = l.rank AND b.tensor_id = l.tensor_id AND b.frozen)
          GROUP BY l.rank
), rested AS (
    -- their rate had been let down to nothing before: layers that are put to rest one after the other
    SELECT p.rank, p.tensor_id FROM parameters p JOIN onset o ON o.rank = p.rank AND o.tensor_id = p.tensor_id
    JOIN param_groups g ON g.rank = p.rank AND g.optimizer_id = p.optimizer_id AND g.group_id = p.group_id
    WHERE o.last_free IS NOT NULL AND g.step <= o.step GROUP BY p.rank, p.tensor_id
    HAVING max(g.lr) > 0 AND arg_max(g.lr, g.step) <= $rest * max(g.lr)
), beside AS (
    -- all that is held is frozen, and what trains is not held: what is wrong is what the optimizer was given
    SELECT DISTINCT p.rank
    FROM parameters p
    JOIN param_steps g ON g.rank = p.rank AND g.tensor_id = p.tensor_id
    WHERE p.optimizer_id IS NULL
      AND p.model IS NOT NULL
      AND p.requires_grad
      AND NOT g.missing
      AND g.sum_sq > 0
      AND p.rank NOT IN (SELECT rank FROM looks WHERE NOT frozen)
)
-- shared: resumes
-- the same training goes on: weights are loaded beside the state of an optimizer, or in another attempt
SELECT o.rank, o.step, o.optimizer_id
FROM checkpoints o
WHERE o.action = 'optimizer'
  AND o.entries > 0
  AND coalesce(o.state_step, $lasting) >= $lasting
  AND EXISTS (FROM checkpoints w WHERE w.rank = o.rank AND w.step = o.step AND w.action = 'weights')
UNION
SELECT a.rank, a.step, NULL AS optimizer_id
FROM events a
WHERE a.event = 'attempt'
  AND EXISTS (FROM checkpoints w WHERE w.rank = a.rank AND w.step = a.step AND w.action = 'weights')
-- shared: frozen_since
-- frozen at each look from a resume on, to the end: of its optimizer, or in another attempt of none
SELECT r.rank, r.step AS resumed, r.optimizer_id, p.tensor_id, p.tensor, p.shape, max(g.step) AS last
FROM resumes r
JOIN parameters p ON p.rank = r.rank AND p.optimizer_id IS NOT DISTINCT FROM r.optimizer_id
JOIN param_steps g ON g.rank = p.rank AND g.tensor_id = p.tensor_id AND g.step >= r.step
GROUP BY ALL HAVING bool_and(g.frozen) AND count(*) >= $lasting
-- shared: frozen_again
-- the same parameter before: frozen first, then thawed once and trained until the resume
SELECT a.rank, a.tensor_id, a.resumed, min(g.step) FILTER (NOT g.frozen) AS freed
FROM frozen_since a
JOIN parameters b ON b.rank = a.rank
    AND b.tensor = a.tensor
    AND b.shape = a.shape
    AND (b.tensor_id = a.tensor_id) = (a.optimizer_id IS NULL)
    AND (b.optimizer_id IS NULL) = (a.optimizer_id IS NULL)
JOIN param_steps g ON g.rank = b.rank AND g.tensor_id = b.tensor_id
    AND (b.tensor_id <> a.tensor_id OR g.step < a.resumed)
WHERE EXISTS (FROM tensor_stats u
    WHERE u.rank = b.rank AND u.tensor_id = b.update_id AND u.step < a.resumed AND u.sum_sq > 0)
  -- what a later resume thawed again, or a plan that thaws part after part, is no fault
  AND NOT EXISTS (FROM parameters o
      JOIN param_steps n ON n.rank = o.rank AND n.tensor_id = o.tensor_id
          AND n.step >= a.resumed AND NOT n.frozen
      WHERE o.rank = a.rank AND o.tensor = a.tensor AND o.shape = a.shape)
  AND NOT EXISTS (FROM thawed t WHERE t.rank = a.rank AND t.step > a.resumed)
GROUP BY a.rank, a.tensor_id, a.resumed, a.last, b.tensor_id
HAVING max(g.step) < a.resumed
   AND arg_min(g.frozen, g.step)
   AND max(g.step) FILTER (g.frozen) < min(g.step) FILTER (NOT g.frozen)
   AND count(*) FILTER (NOT g.frozen AND g.sum_sq > 0) >= $lasting
   -- longer than it was frozen before: where the plan begins again, the thaw is still to come
   AND a.last - a.resumed > min(g.step) FILTER (NOT g.frozen) - min(g.step)
QUALIFY row_number() OVER (PARTITION BY a.rank, a.tensor_id ORDER BY a.resumed, max(g.step) DESC) = 1
-- detector: frozen_by_a_resume
SELECT a.rank, a.resumed AS step, 'error' AS severity,
    arg_min(p.module, place_of_call(p.call_order)) AS module,
    arg_min(p.tensor, place_of_call(p.call_order)) AS tensor, count(*) AS value,
    array_to_string(list(p.tensor ORDER BY p.tensor_id)[:$named], ', ') AS names, false AS meant,
    CASE WHEN bool_or(p.optimizer_id IS NULL) THEN 'left_out' ELSE 'held' END AS held_,
    'by_a_resume' AS again_, min(a.freed) AS freed
FROM frozen_again a
JOIN parameters p ON p.rank = a.rank AND p.tensor_id = a.tensor_id
GROUP BY a.rank, a.resumed
-- detector: held_and_frozen
SELECT rank, step,
    CASE WHEN rank IN (SELECT t.rank FROM thawed t WHERE t.step > onset.step)
        OR meant
        OR rank IN (FROM beside) THEN 'warning' ELSE 'error' END AS severity,
    arg_min(module, place_of_call(call_order)) AS module,
    arg_min(tensor, place_of_call(call_order)) AS tensor, count(*) AS value,
    array_to_string(list(tensor ORDER BY tensor_id)[:$named], ', ') AS names, meant, 'held' AS held_
FROM onset
WHERE (rank, tensor_id) NOT IN (SELECT (rank, tensor_id)
    FROM rested UNION SELECT (rank, tensor_id)
    FROM moving UNION SELECT (rank, tensor_id)
    FROM frozen_again)
GROUP BY rank, step, meant
-- detector: refused
SELECT p.rank, e.step, 'fatal' AS severity, arg_min(p.module, place_of_call(p.call_order)) AS module,
    arg_min(p.tensor, place_of_call(p.call_order)) AS tensor, count(*) AS value,
    array_to_string(list(p.tensor ORDER BY p.tensor_id)[:$named], ', ') AS names, false AS meant,
    'held' AS held_
FROM exits e
JOIN known_exceptions k ON k.known = 'no-grad-fn' AND regexp_matches(e.exception_message, k.pattern)
JOIN parameters p ON p.rank = coalesce(e.rank, 0)
    -- which optimizer holds what is known from its first step on; some runs end before
    AND (p.optimizer_id IS NOT NULL
        OR NOT EXISTS (FROM parameters o WHERE o.rank = p.rank AND o.optimizer_id IS NOT NULL))
WHERE e.phase = 'backward' AND e.step IS NOT NULL
  AND p.rank NOT IN (SELECT rank FROM onset)
GROUP BY p.rank, e.step
HAVING bool_and(p.requires_grad IS NOT DISTINCT FROM false)
-- together
ORDER BY step, meant, rank
