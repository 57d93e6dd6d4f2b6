/*
code = "OP002"
name = "zero-grad-before-step"
severity = "error"
phase = "optimizer"
signal = "grad_norm"
message = "At step {step} {what_} ({calls}: f forward, b backward, z zero_grad, s step). The optimizer saw {saw_}."
fix = "{fix_}"
seeks = [
    "steps: NOT coalesce(stepped, false) OR regexp_matches(calls, 'b[^bs]*z[^bs]*s') OR calls LIKE '%b%b%' OR regexp_matches(calls, '^[^b]*f[^b]*z[^b]*s$')",
]
explains = ["silent-backend-noop", "frozen-by-zero-gradient", "nothing-learnt", "shuffled-labels", "accumulation-not-normalised", "token-weighted-accumulation"]
[say.what_]
cleared_between = "the gradients were cleared between backward and optimizer.step"
no_backward = "the optimizer stepped after a forward and zero_grad, without a backward"
[say.fix_]
other_order = "Call optimizer.zero_grad() before backward or after step, never between them. Where an accumulation ends short with an epoch, step once more before they are cleared."
call_backward = "Call backward() on the loss that this part of the loop computes, before optimizer.step()."
[say.saw_]
no_gradient = "no gradient"
no_gradient_any_more = "no gradient, in {steps} steps to the end of the run; it had some in {before} steps before"
zeros = "gradients of zero"
zeros_in_a_part = "gradients of zero in {cleared} of {parameters} parameters"
one_pass_of_several = "one of every {microbatches} backward passes, each of another batch"
nothing_of_the_tails = "nothing of {microbatches} backward passes at the end of every {apart} accumulations"
[params.least]
value = 3
unit = "steps"
doc = "Steps in a row, to the end of the run, in which a part of the parameters was cleared. Also steps before them in which it was not."
source = "convention: of this project, fewer may be one odd branch"
[params.windows]
value = 5
unit = "steps"
doc = "Steps of the optimizer, all alike, before each of which the gradients of other batches were cleared."
source = "convention: of this project, as many windows, all alike, are how the loop is written"
[params.loop]
value = 4
unit = "passes"
doc = "Backward passes before one step from which they are a loop, also beside other optimizers."
source = "convention: of this project, two or three may be the losses of several networks"
[params.tails]
value = 3
unit = "accumulations"
doc = "Accumulations that were cleared without a step, at equal distances: the ends of epochs."
source = "convention: of this project, as many, all alike, are how the loop is written"
[params.much]
value = 0.1
unit = "of the passes"
doc = "Share of the backward passes from which on losing them is no longer advice."
source = "convention: of this project, a tenth of the data"
[needs]
tables = ["steps"]
columns = ["steps.calls"]
[doc]
what = "A zero_grad comes after the last backward and before optimizer.step, and the step finds no gradient or only zeros. It finds none in all parameters. Or from some step to the end it finds none in a part of the model. The gradients of this part were there before that zero_grad. Or an accumulation clears every backward pass but the last of a step. Or it clears the last one of each epoch, which stays short. The zero_grad in front of the next epoch does that. Or an optimizer that has had gradients steps from some step to the end after a forward and zero_grad, and no backward comes between."
why = "The step is made of nothing: weights stay, or only decay and momentum move them."
not_this = "zero_grad of another optimizer or model (GAN), after which this optimizer's gradients are still there. Closures. Two passes over one batch (SAM). A part that was cleared so from the first step on may be held back on purpose: a warning."
source = "Order of calls; no threshold."
*/
-- detector: all_gradients
WITH lost AS (
    -- backward passes before it in the same iteration that a zero_grad has cleared as well: a probe between
    -- backward and step
    SELECT rank, step,
        max(step) FILTER (NOT cleared) OVER (PARTITION BY rank
            ORDER BY step ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS last_kept
    FROM (SELECT rank, step,
        bool_and(NOT stepped AND regexp_matches(coalesce(calls, ''), 'b[^bs]*z[^bs]*$')) AS cleared
        FROM steps
        GROUP BY ALL)
)
SELECT s.rank, coalesce(l.last_kept + 1, s.step) AS step, s.optimizer_id, s.calls,
    CASE WHEN s.grad_norm IS NULL THEN 'no_gradient' ELSE 'zeros' END AS saw_, s.microbatches,
    NULL AS module, 'error' AS severity
FROM steps s JOIN lost l ON l.rank = s.rank AND l.step = s.step
WHERE s.stepped
  AND s.microbatches >= 1
  AND coalesce(s.grad_norm, 0) = 0
  AND regexp_matches(s.calls, 'b[^bs]*z[^bs]*s')
-- detector: no_backward_any_more
WITH each AS (
    SELECT rank, step, optimizer_id, calls,
        microbatches = 0 AND grad_norm IS NULL AND regexp_matches(calls, '^[^b]*z[^b]*s$') AS bare,
        calls LIKE '%f%' AS forward_seen,
        microbatches >= 1 AND grad_norm > 0 AS fed
    FROM steps WHERE stepped AND calls IS NOT NULL
), lasts AS (
    SELECT *, coalesce(max(step) FILTER (NOT bare) OVER (PARTITION BY rank, optimizer_id), -1) AS last_other
    FROM each
)
SELECT rank, min(step) FILTER (step > last_other) AS step, optimizer_id,
    arg_min(calls, step) FILTER (step > last_other) AS calls, count(*) FILTER (step > last_other) AS steps,
    count(*) FILTER (fed) AS before, 'no_gradient_any_more' AS saw_, 'no_backward' AS what_,
    'call_backward' AS fix_, 0 AS microbatches, NULL AS module, 'error' AS severity
FROM lasts
GROUP BY rank, optimizer_id, last_other
HAVING count(*) FILTER (step > last_other AND forward_seen) >= $windows AND count(*) FILTER (fed) >= $least
-- detector: some_parameters
WITH between_ AS (
    SELECT rank, step, optimizer_id, calls, microbatches, regexp_matches(calls, 'b[^bs]*z[^bs]*s') AS between_
    FROM steps
    WHERE stepped AND microbatches >= 1 AND grad_norm > 0
), looks AS (
    -- gradients that were there when backward had ended, and not any more when the optimizer stepped
    SELECT b.rank, b.step, b.optimizer_id, p.tensor_id,
        b.between_
            AND arg_max(coalesce(g.missing, false) OR (g.sum_sq = 0 AND g.nan_count + g.inf_count = 0), g.seq)
            AND max(g.sum_sq) FILTER (NOT coalesce(g.missing, false)) > 0 AS cleared,
        coalesce(arg_max(CASE WHEN coalesce(g.missing, false) THEN 0 ELSE g.sum_sq END, g.seq), 0) > 0 AS kept
    FROM between_ b JOIN parameters p ON p.rank = b.rank AND p.optimizer_id = b.optimizer_id
    JOIN tensor_stats g ON g.rank = b.rank AND g.step = b.step AND g.tensor_id = p.gradient_id
    WHERE EXISTS (SELECT 1
        FROM between_ e
        WHERE e.rank = b.rank AND e.optimizer_id = b.optimizer_id AND e.between_)
    GROUP BY b.rank, b.step, b.optimizer_id, b.between_, p.tensor_id
), emptied AS (
    -- from the first step that clears after the last look at which it had not been
    SELECT l.rank, l.optimizer_id, l.tensor_id, l.kept, min(b.step) AS step FROM (
        SELECT rank, optimizer_id, tensor_id, max(step) FILTER (NOT cleared) AS last,
            count(*) FILTER (kept) AS kept
        FROM looks
        GROUP BY rank, optimizer_id, tensor_id
        HAVING coalesce(arg_max(cleared, step), false)
            AND max(step) - coalesce(max(step) FILTER (NOT cleared), -1) >= $least
    ) l
        JOIN between_ b ON b.rank = l.rank
            AND b.optimizer_id = l.optimizer_id
            AND b.between_
            AND b.step > coalesce(l.last, -1)
    GROUP BY l.rank, l.optimizer_id, l.tensor_id, l.kept
), parts AS (
    SELECT e.rank, e.optimizer_id, min(e.step) AS step, count(*) AS cleared_, min(e.kept) AS kept,
        (SELECT count(DISTINCT l.tensor_id)
            FROM looks l
            WHERE l.rank = e.rank AND l.optimizer_id = e.optimizer_id) AS all_
    FROM emptied e GROUP BY e.rank, e.optimizer_id
), whole AS (
    -- the outermost module of which nothing was left
    SELECT rank, optimizer_id, arg_min(ancestor, (ancestor_depth, ancestor_id)) AS module FROM (
        SELECT t.rank, p.optimizer_id, t.ancestor, t.ancestor_id, t.ancestor_depth
        FROM module_tree t
        JOIN parameters p ON p.rank = t.rank AND p.module_id = t.module_id
        LEFT JOIN emptied e ON e.rank = p.rank AND e.tensor_id = p.tensor_id
        WHERE p.optimizer_id IS NOT NULL GROUP BY ALL HAVING bool_and(e.tensor_id IS NOT NULL))
    GROUP BY rank, optimizer_id
)
SELECT p.rank, p.step, p.optimizer_id, b.calls,
    'zeros_in_a_part' AS saw_, p.cleared_ AS cleared, p.all_ AS parameters, b.microbatches, w.module,
    CASE WHEN p.kept >= $least THEN 'error' ELSE 'warning' END AS severity
FROM parts p JOIN between_ b ON b.rank = p.rank AND b.step = p.step AND b.optimizer_id = p.optimizer_id
LEFT JOIN whole w ON w.rank = p.rank AND w.optimizer_id = p.optimizer_id
WHERE p.cleared_ < p.all_
-- detector: all_but_the_last_pass
WITH passes AS (
    -- backward passes by the step of the optimizer that came next
    SELECT s.rank, s.step, s.stepped, coalesce(s.calls, '') AS calls, s.optimizer_id, i.prints,
        coalesce(sum(s.stepped::INT) OVER (PARTITION BY s.rank
            ORDER BY s.step ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS window_
    FROM steps s
    -- what an autoencoder is given is its target as well
    LEFT JOIN (SELECT rank, step, coalesce(list(DISTINCT fingerprint) FILTER (role = 'input'),
            list(DISTINCT fingerprint) FILTER (role = 'target')) AS prints
        FROM batches
        WHERE phase <> 'eval' AND fingerprint IS NOT NULL
        GROUP BY rank, step) i ON i.rank = s.rank AND i.step = s.step
    WHERE s.microbatches >= 1
), windows AS (
    -- calls of all rows up to that step: where a row ends, a call that clears may stand in it or in the next
    SELECT rank, window_, min(step) AS step, max(optimizer_id) AS optimizer_id,
        len(list_distinct(flatten(list(prints)))) AS inputs,
        regexp_replace(string_agg(calls, '' ORDER BY step), 's[^s]*$', '') AS calls
    FROM passes
    GROUP BY rank, window_
    -- nothing between them went unseen, nor what came before, and the optimizer has stepped at the end
    HAVING max(step) - min(step) + 1 = count(*) AND arg_max(stepped, step)
        AND (min(step) = 0 OR (rank, min(step) - 1) IN (SELECT (rank, step) FROM steps WHERE stepped))
), counted AS (
    SELECT *, len(regexp_replace(calls, '[^b]', '', 'g')) AS passes,
        len(regexp_replace(regexp_extract(calls, '^(.*)z', 1), '[^b]', '', 'g')) AS cleared,
        regexp_matches(calls, 'b[^z]*b') AS some_kept
    FROM windows
), thrown_away AS (
    -- an accumulation of which every pass but the last is cleared; two passes over one batch are meant so
    -- (SAM)
    SELECT rank, min(step) AS step, any_value(calls) AS calls, any_value(optimizer_id) AS optimizer_id,
        min(passes) AS passes, bool_and(inputs >= passes) AS apart
    FROM counted
    GROUP BY rank
    HAVING count(*) >= $windows AND min(passes) = max(passes) AND min(passes) >= 2
        AND bool_and(cleared = passes - 1 AND (NOT some_kept OR inputs >= passes) AND 2 * inputs > passes)
)
SELECT rank, step, optimizer_id, calls, 'one_pass_of_several' AS saw_, passes AS microbatches,
    NULL AS module, 'error' AS severity
FROM thrown_away
-- the zero_grad of another optimizer clears nothing of this one; so many passes, each of a batch of its own,
-- are one loop
WHERE passes >= $loop AND apart
  OR (SELECT count(DISTINCT optimizer_id) FROM param_groups g WHERE g.rank = thrown_away.rank) <= 1
-- detector: tails_of_accumulations
WITH passes AS (
    SELECT rank, step, stepped, microbatches, calls, optimizer_id, grad_norm, skipped_by_scaler,
        NOT stepped AND regexp_matches(coalesce(calls, ''), 'b[^bs]*z[^bs]*$') AS cleared
    FROM steps WHERE microbatches >= 1
), ends AS (
    -- what was lost was finite, and nobody decided by it
    SELECT *, step - lag(step) OVER (PARTITION BY rank ORDER BY step) AS apart
    FROM passes WHERE cleared AND isfinite(grad_norm) AND NOT coalesce(skipped_by_scaler, false)
), lost AS (
    SELECT rank, min(step) AS step, any_value(calls) AS calls, any_value(apart) AS apart,
        any_value(microbatches) AS microbatches, sum(microbatches) AS passes
    FROM ends GROUP BY rank
    HAVING count(*) >= $tails AND count(DISTINCT apart) = 1 AND count(DISTINCT microbatches) = 1
), kept AS (
    SELECT rank, min(microbatches) AS microbatches, sum(microbatches) AS passes,
        any_value(optimizer_id) AS optimizer_id
    FROM passes WHERE stepped GROUP BY rank
    HAVING min(microbatches) = max(microbatches) AND min(microbatches) >= 2
)
SELECT l.rank, l.step, k.optimizer_id, l.calls, 'nothing_of_the_tails' AS saw_, l.microbatches, l.apart,
    NULL AS module,
    CASE WHEN l.passes >= $much * (l.passes + k.passes) THEN 'error' ELSE 'warning' END AS severity
FROM lost l JOIN kept k ON k.rank = l.rank AND l.microbatches <= k.microbatches
WHERE l.apart >= 2
  AND NOT EXISTS (FROM passes p WHERE p.rank = l.rank AND NOT p.stepped AND NOT p.cleared)
  AND (SELECT count(DISTINCT optimizer_id) FROM param_groups g WHERE g.rank = l.rank) <= 1
-- together
SELECT * REPLACE (coalesce(what_, 'cleared_between') AS what_, coalesce(fix_, 'other_order') AS fix_)
FROM found
ORDER BY severity, step, rank, optimizer_id
