/*
code = "OP015"
name = "clip-always-active"
severity = "error"
phase = "optimizer"
signal = "clip_coefficient"
message = "From step {step} on {how_}: {effect_}."
fix = "Raise the threshold to a high quantile of the norms, or lower the learning rate if gradients are too large."
seeks = [
    "steps: isfinite(clip_norm) AND CASE WHEN clip_norm > 0 THEN clip_max_norm / clip_norm ELSE 1 END < $most OR clip_value > 0",
]
[say.how_]
norm_cut_hard = "clipping leaves less than {below:.3g} of the gradient in {percent} % of the steps (typical coefficient {value:.3g}: norm {norm:.3g} cut to {max_norm:.3g})"
elements_cut_hard = "clipping by value cuts most of the {numel} elements of the gradient to the same size, {max_norm:.3g}: their mean square is {percent} % of its square"
[say.effect_]
sets_the_step_length = "the threshold sets the step length, not the gradient"
hardly_slows = "an optimizer that divides by the size of the gradients is hardly slowed by it"
leaves_the_signs = "what is left of the gradient is its signs"
[params.most]
value = 0.1
doc = "Clip coefficient max_norm / norm below which a step counts."
source = "convention: of this project, a tenth: clipping is then an order of magnitude"
[params.share]
value = 0.9
doc = "Share of the steps."
source = "convention: of this project, nearly all steps: a threshold for outliers acts on few"
[params.energy]
value = 0.5
doc = "For a clip by value: mean square of the gradient's elements over the square of the bound. From it on at least a third of them are at the bound."
source = "arithmetic: Markov's inequality, as the source of the rule says"
[params.least]
value = 10
unit = "steps"
doc = "Steps that clip."
source = "convention: of this project, fewer are the first steps"
[params.chosen]
value = 0.1
doc = "Threshold from which it is one that people choose, such as 0.5 and 1: below an optimizer that divides by the size of the gradients it is then advice."
source = "convention: recipes clip at 0.1 (DETR), 0.5 (PPO) and 1 (GPT-3, Brown et al. 2020)"
[params.recent]
value = 12
unit = "steps"
doc = "Steps before, from which it is told what is usual."
source = "convention: of this project, the window of the view optimizer_series"
[params.lowered]
value = 0.5
unit = "times"
doc = "Threshold over the usual one, below which it was lowered."
source = "arithmetic: half"
[params.early]
value = 10
unit = "steps"
doc = "Steps from the start in which it begins, at least; or a tenth of the run."
source = "convention: of this project, the first steps"
[params.same]
value = 1e-6
unit = "relative"
doc = "Change of the threshold that is none."
source = "convention: of this project, rounding"
[needs]
tables = ["steps"]
columns = ["steps.grad_norm"]
steps = 10
[doc]
what = "Gradient clipping cuts more than nine tenths of the gradient in more than nine of ten steps. Or most elements are at the bound of a clip by value in as many of them."
why = "Every step then has the same length whatever the gradient says; the learning rate is not what it seems."
not_this = "Clipping that is active often but mildly, or only at the start. A threshold that fitted for a while, until the gradients outgrew it, is a warning. So is a usual threshold for Adam and similar optimizers, whose update is the same for gradients of any size. An example are the large norms of value losses in reinforcement learning."
source = "Thresholds of the catalogue: coefficient below 0.1 on more than 90 % of the steps. Markov: take elements no larger than v, with a mean square of half v squared. At least a third of them are beyond v / 2."
*/
-- shared
WITH sizeless AS (
    -- optimizers that divide by the size of the gradients
    SELECT rank FROM param_groups GROUP BY rank
    HAVING bool_and(beta2 IS NOT NULL
        OR optimizer ILIKE '%adagrad%'
        OR optimizer ILIKE '%rmsprop%'
        OR optimizer ILIKE '%adadelta%'
        OR optimizer ILIKE '%adafactor%')
)
-- detector: norm_cut_hard
WITH clips AS (
    SELECT rank, step, CASE WHEN clip_norm > 0 THEN clip_max_norm / clip_norm ELSE 1 END AS coefficient,
        clip_norm, clip_max_norm,
        row_number() OVER (PARTITION BY rank ORDER BY step) AS n, count(*) OVER (PARTITION BY rank) AS total
    FROM (SELECT rank, step, max(clip_norm) AS clip_norm, max(clip_max_norm) AS clip_max_norm FROM steps
          WHERE isfinite(clip_norm)
            AND isfinite(clip_max_norm)
            AND clip_max_norm > 0
            AND NOT coalesce(clip_scaled, false)
          GROUP BY rank, step)
), onset AS (
    -- the first step from which nearly all are cut that hard
    SELECT rank, min(step) AS step, min(n) AS n, arg_min(usual_norm, n) AS usual_norm,
        any_value(total) AS total
    FROM (
        SELECT *,
            avg((coefficient < $most)::INT) OVER (PARTITION BY rank
                ORDER BY step ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS rest,
            count(*) OVER (PARTITION BY rank
                ORDER BY step ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS left_,
            median(clip_max_norm) OVER (PARTITION BY rank
                ORDER BY step ROWS BETWEEN $recent PRECEDING AND 1 PRECEDING) AS usual_norm
                FROM clips)
    -- in half of the run; a threshold that was lowered there says it by itself
    WHERE coefficient < $most
      AND rest > $share
      AND left_ >= greatest($least, CASE WHEN clip_max_norm < $lowered * usual_norm THEN 0 ELSE total / 2 END)
    GROUP BY rank
)
SELECT o.rank, o.step, median(c.coefficient) AS value, median(c.clip_norm) AS norm,
    median(c.clip_max_norm) AS max_norm, $most AS below, 'norm_cut_hard' AS how_,
    percent_of(avg((c.coefficient < $most)::INT)) AS percent,
    CASE WHEN median(c.clip_max_norm) >= $chosen AND o.rank IN (FROM sizeless) THEN 'hardly_slows'
        ELSE 'sets_the_step_length' END AS effect_,
    -- a threshold that fitted until the gradients had outgrown it is advice
    CASE WHEN median(c.clip_max_norm) >= $chosen
        AND o.rank IN (FROM sizeless) THEN 'warning'
            WHEN any_value(o.n) <= greatest($early, any_value(o.total) / $early)
        OR abs(median(c.clip_max_norm) - any_value(o.usual_norm)) > $same
            * any_value(o.usual_norm) THEN 'error'
            ELSE 'warning'
            END AS severity
FROM onset o JOIN clips c ON c.rank = o.rank AND c.step >= o.step
GROUP BY o.rank, o.step
-- detector: elements_cut_hard
WITH by_value AS (
    SELECT *, avg((energy > $energy)::INT) OVER rest AS often, count(*) OVER rest AS left_,
        count(*) OVER (PARTITION BY rank) AS total,
        median(bound) OVER (PARTITION BY rank
            ORDER BY step ROWS BETWEEN $recent PRECEDING AND 1 PRECEDING) AS usual_bound
    FROM (
        SELECT s.rank, s.step, s.grad_norm AS norm, s.clip_value AS bound, g.numel,
            (s.grad_norm / s.clip_value) ** 2 / g.numel AS energy
        FROM steps s
        JOIN (SELECT rank, step, sum(numel) AS numel
            FROM param_groups
            GROUP BY rank, step) g ON g.rank = s.rank
            AND g.step = s.step
        WHERE s.clip_value > 0 AND isfinite(s.grad_norm) AND NOT coalesce(s.clip_scaled, false)
    ) WINDOW rest AS (PARTITION BY rank ORDER BY step ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)
), onset_by_value AS (
    SELECT rank, min(step) AS step FROM by_value
    WHERE energy > $energy
      AND often > $share
      AND left_ >= greatest($least, CASE WHEN bound < $lowered * usual_bound THEN 0 ELSE total / 2 END)
    GROUP BY rank
)
SELECT v.rank, o.step, median(v.energy) AS value, median(v.norm) AS norm, median(v.bound) AS max_norm,
    any_value(v.numel) AS numel, percent_of(median(v.energy)) AS percent, 'elements_cut_hard' AS how_,
    CASE WHEN v.rank IN (FROM sizeless) THEN 'leaves_the_signs' ELSE 'sets_the_step_length' END AS effect_,
    CASE WHEN v.rank IN (FROM sizeless) THEN 'warning' ELSE 'error' END AS severity
FROM onset_by_value o JOIN by_value v ON v.rank = o.rank AND v.step >= o.step
GROUP BY v.rank, o.step
-- together
ORDER BY step, rank
