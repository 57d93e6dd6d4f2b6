/*
code = "OP016"
name = "clip-ineffective"
severity = "error"
phase = "optimizer"
signal = "grad_norm"
message = "At step {step} the optimizer saw a gradient norm of {value} although clip_grad_norm_ was told {max_norm} ({why_})."
fix = "Call clip_grad_norm_ after the last backward and before optimizer.step, on the parameters that the optimizer holds. Call model.parameters() each time: kept in a variable, it is a generator that is empty after its first use."
seeks = ["steps: stepped AND clip_max_norm > 0 AND grad_norm > $over * clip_max_norm"]
explains = ["clip-always-active"]
[say.why_]
not_between_backward_and_step = "it was not called between backward and step; the order was {calls}: f forward, b backward, z zero_grad, c clipping, s step"
other_parameters = "its parameters are not those of the optimizer"
part_of_the_gradient = "it was given {clip_numel} of {numel} gradient elements"
nothing = "it was given no gradient at all, as a generator gives that was used up before"
[params.over]
value = 1.05
unit = "times"
doc = "How far above max_norm the norm must be; clipping rounds."
source = "convention: of this project, the norm is divided by itself plus 1e-6; half precision rounds by up to 1 %"
[params.far]
value = 2.0
unit = "times"
doc = "The same where only a part of the gradients was clipped, which may be meant."
source = "convention: of this project, twice"
[params.half]
value = 0.5
unit = "of the elements"
doc = "Share of the elements that were clipped."
source = "arithmetic: a majority is more than a half"
[params.all_of_them]
value = 0.99
unit = "of the elements"
doc = "The same, where all of them were."
source = "convention: of this project, a hundredth may be frozen"
[needs]
tables = ["steps"]
columns = ["steps.clip_max_norm", "steps.grad_norm"]
[doc]
what = "Clipping is configured, yet the norm that reaches the optimizer's step is above max_norm."
why = "The protection is not there; a spike goes through at full height."
not_this = "Several clip calls for several parts of the model. Clipping of a part that holds most of the gradient, clipping before unscale (a rule of its own). Non-finite norms."
source = "Arithmetic: after clipping the norm of what was clipped is at most max_norm."
*/
WITH held AS (
    SELECT rank, step, optimizer_id, sum(numel) AS numel FROM param_groups GROUP BY ALL
), seen AS (
    SELECT s.rank, s.step, s.optimizer_id, s.grad_norm AS value, s.clip_max_norm AS max_norm, s.clip_norm,
        s.clip_numel, h.numel, s.calls,
        length(s.calls) - length(replace(s.calls, 'c', '')) AS clips,
        NOT regexp_matches(coalesce(s.calls, 'bcs'), 'b[^bs]*c[^bs]*s') AS misplaced
    FROM steps s LEFT JOIN held h ON h.rank = s.rank AND h.step = s.step AND h.optimizer_id = s.optimizer_id
    WHERE s.stepped AND isfinite(s.grad_norm) AND s.clip_max_norm > 0 AND isfinite(s.clip_max_norm)
      AND NOT coalesce(s.clip_scaled, false) AND s.clip_value IS NULL
), judged AS (
    SELECT *, value > $over * max_norm * sqrt(greatest(clips, 1)) AS above,
        -- a call that is given too little is the same fault in every step, also where the norm is not far
        -- above
        max(value / max_norm) OVER (PARTITION BY rank, optimizer_id, clip_numel) > $far AS far_,
        CASE WHEN misplaced THEN 'not_between_backward_and_step'
            WHEN clip_numel IS NULL OR numel IS NULL THEN 'other_parameters'
            WHEN clip_numel = 0 THEN 'nothing' ELSE 'part_of_the_gradient' END AS why_
    FROM seen
)
SELECT rank, step, optimizer_id, value, max_norm, clip_norm, clip_numel, numel, calls, why_,
    CASE WHEN misplaced
        OR clip_numel IS NULL OR clip_numel = 0
        OR clip_numel < $half * numel
        AND far_ THEN 'error' ELSE 'warning' END AS severity
FROM judged WHERE above AND (misplaced OR coalesce(clip_numel < $all_of_them * numel, true))
ORDER BY step, rank, optimizer_id
