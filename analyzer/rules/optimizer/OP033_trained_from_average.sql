/*
code = "OP033"
name = "trained-from-average"
severity = "error"
phase = "optimizer"
signal = "model_set"
message = "Step {step} goes on from {name} ({kind_}), an average of the weights of {of_model}. It was put into the model after the step before and not taken out{times_}. The weights of the training, {value} of their size away from it, are lost."
fix = "Keep the model's own weights before the average is put in. Put them back before the training goes on (store and restore, or swap). Or evaluate the copy itself. Save both, and load each into its own."
seeks = ["copies: distance_then = 0 AND model_set >= $soft * $apart"]
explains = ["plateau", "underfit"]
[say.kind_]
averaged = "AveragedModel"
module = "a second model"
part = "a part of the model"
holder = "an object with tensors"
[say.times_]
several = ", {places} times in all"
[params.updates]
value = 5
unit = "updates"
doc = "Soft updates of the copy for each time that it was put into the model: it follows by itself."
source = "own history"
[params.soft]
value = 0.5
unit = "of the distance"
doc = "Most of its distance that a soft update covers, and least of it that the model must have been set by."
source = "arithmetic: the nearer one of the two has moved to the other"
[params.apart]
value = 0.01
doc = "Distance from the model, as a share of its weights, from which the two are different weights."
source = "convention: of this project, a hundredth: less is a few steps of training"
[needs]
tables = ["copies", "steps"]
columns = ["copies.model_set"]
[doc]
what = "A copy follows the model softly, step after step. Then the model's weights are set between two steps, and are those of the copy bit for bit when the next step begins. The same optimizer goes on. It is an error where that came twice or more, each time with an evaluation, else a warning."
why = "Each time the training falls back to its average: what the optimizer had gained is thrown away, and its moments belong to other weights. The average follows itself and averages nothing."
not_this = "An average that is put in for an evaluation and taken out again. Slow weights that only move when the model is set to them, as with Lookahead, Reptile or federated averaging. Target networks and best models, which are overwritten. A copy at the end of the run. Another stage with a new optimizer."
source = "Equality of a sample of the weights; the copy's own history."
*/
WITH rows_ AS (
    SELECT *, lag(distance) OVER (PARTITION BY rank, copy_id ORDER BY step) AS before,
        lag(step) OVER (PARTITION BY rank, copy_id ORDER BY step) AS step_before
    FROM copies
), marked AS (
    SELECT *,
        -- the model went all the way to the copy, and not the copy to the model
        coalesce(before >= $apart AND distance_then = 0 AND model_set >= $soft * before, false) AS set_,
        coalesce(moved > 0 AND moved < $soft * before AND distance > 0, false) AS followed
    FROM rows_
), steps_ AS (
    SELECT rank, step, list(optimizer_id) AS optimizers, max(eval_forwards) AS eval_forwards
    FROM steps WHERE stepped GROUP BY rank, step
), places AS (
    SELECT m.*, s.eval_forwards > 0 AS evaluated,
        (SELECT count(*) FROM marked f
            WHERE f.rank = m.rank AND f.copy_id = m.copy_id AND f.step < m.step
              AND f.followed AND NOT f.set_) AS followed_before
    FROM marked m
    JOIN steps_ s ON s.rank = m.rank AND s.step = m.step
    JOIN steps_ b ON b.rank = m.rank AND b.step = m.step_before
    WHERE m.set_ AND list_has_any(s.optimizers, b.optimizers)
)
SELECT rank, copy_id, min(step) AS step, arg_min(name, step) AS name,
    CASE arg_min(kind, step) WHEN 'averaged' THEN 'averaged' WHEN 'part' THEN 'part'
        WHEN 'holder' THEN 'holder' ELSE 'module' END AS kind_,
    arg_min(of_model, step) AS of_model, arg_min(before, step) AS value, count(*) AS places,
    CASE WHEN count(*) > 1 THEN 'several' END AS times_,
    CASE WHEN count(*) FILTER (evaluated) > 1 THEN 'error' ELSE 'warning' END AS severity
FROM places
GROUP BY rank, copy_id
HAVING min(followed_before) >= $updates AND max(followed_before) >= $updates * count(*)
ORDER BY step, rank, copy_id
