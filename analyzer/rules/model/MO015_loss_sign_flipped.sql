/*
code = "MO015"
name = "loss-sign-flipped"
severity = "error"
phase = "loss"
signal = "loss_gradient"
message = "From step {step} on {what_}."
fix = "Minimise the loss itself; look for a minus sign, or for an optimizer with maximize=True."
seeks = [
    [
        "events: event IN ('loss-turned-round', 'loss-one-way')",
        "batches: loss_gradient < 0 OR list_min(class_weights) < 0",
        "optimizer_series: loss < 0",
        "param_groups: coalesce(TRY_CAST(settings->>'$.maximize' AS BOOLEAN), false)",
    ],
]
explains = ["loss-off-course", "exploding-gradients", "underfit", "logit-drift", "lr-too-high", "overfit", "silent-backend-noop", "silent-data-corruption"]
[say.what_]
negative_class_weight = "a class counts with weight {value:.3g} in {loss_op}: what is made likely for it should be unlikely"
negative_weight = "{loss_op} counts with weight {value:.3g} in what is minimised: a negative weight makes the model worse on purpose"
maximised = "the optimizer maximises (maximize=True) while {loss_op} counts with a positive weight: the error is made as large as it can be"
log_probability = "the mean logarithm of a probability is minimised ({operator}), and it has fallen from {at_first:.3g} to {value:.3g}: what should be likely is made as unlikely as it can be"
negative_absolute_error = "the negative of a mean of absolute differences is minimised, and it has fallen from {at_first:.3g} to {value:.3g}: the error is made as large as it can be"
negative_square_error = "the negative of a mean of square differences is minimised, and it has fallen from {at_first:.3g} to {value:.3g}: the error is made as large as it can be"
falls_without_bound = "the loss is below zero and falls without bound, from sizes of {at_first:.3g} at first to {value:.3g}, and its gradients grow with it: what is minimised has no minimum"
gains_speed = "the loss heads below zero, faster and faster, from sizes of {at_first:.3g} at first to {value:.3g}, and its gradients grow with it: what is minimised has no minimum"
turned_round = "the loss pushes the outputs of {module} away from {field}: of their elements no more than {value:.0%} move towards it, at each of {looks} looks. A score that should be large, such as Dice or IoU, is minimised"
one_way = "the loss pushes all outputs of {module} {direction_}, those of {calls} calls in a step, each by the same amount, at {looks} looks: a bias alone lowers it without end. A critic must raise some scores and lower others"
[say.direction_]
up = "up"
down = "down"
[params.runaway]
value = 1000.0
unit = "times"
doc = "How far below zero a loss of any kind must have run, in sizes of its first steps. For gradients a tenth of that suffices."
source = "convention: of this project, three orders of magnitude below where it began is no loss with a minimum"
[params.gaining]
value = 1.8
unit = "times"
doc = "How much more a loss below zero falls in each third of its way than in the third before."
source = "own history"
[params.below]
value = 10.0
unit = "times"
doc = "How far below zero a loss that gains speed must have run, in sizes of its first steps."
source = "convention: of this project, one order of magnitude, where it gains speed as well"
[params.worse]
value = 2.0
unit = "times"
doc = "How far an error that is maximised must have grown, where it was so from the start."
source = "convention: of this project, twice as large"
[params.edge]
value = 8
unit = "steps"
doc = "How many steps at either end say where the loss began and where it is."
source = "own history"
[params.least]
value = 12
unit = "steps"
doc = "Steps that tell where a loss goes."
source = "own history"
[params.least_runaway]
value = 20
unit = "steps"
doc = "Steps that tell of a loss of any kind that it runs away."
source = "own history"
[params.least_way]
value = 18
unit = "steps"
doc = "Steps below zero that can be cut into thirds."
source = "own history"
[params.early]
value = 0.25
unit = "of the run"
doc = "Where the second quarter of the run begins, which the last one is compared with."
source = "arithmetic"
[params.half]
value = 0.5
unit = "of the run"
doc = "Where it ends."
source = "arithmetic"
[params.late]
value = 0.75
unit = "of the run"
doc = "Where the last quarter begins."
source = "arithmetic"
[params.on_its_way]
value = 3
unit = "times"
doc = "How much lower the loss of the last quarter is than that of the second, where it still falls."
source = "case: a loss of any kind that runs away below zero"
[params.gradients]
value = 0.1
unit = "of runaway"
doc = "How much of the loss's growth its gradients must show."
source = "case: a loss of any kind that runs away below zero"
[params.leap]
value = 1.5
unit = "times"
doc = "How far gradients leave, for good and in one step, all that they had been."
source = "case: one term of two is turned round in the middle of a run"
[params.settled]
value = 5
unit = "steps"
doc = "Steps before such a leap counts."
source = "own history"
[params.parts]
value = 3.0
unit = "parts"
doc = "Parts of the way whose falls are compared."
source = "arithmetic: thirds"
[needs]
tables = ["steps", "param_groups"]
[doc]
what = "The run has one optimizer, and the only loss of the step cannot be negative (cross entropy, squared error …). It enters the total with a negative weight. Or such a loss is given a negative weight for a class. Or the one optimizer maximises such a loss that counts with a positive weight. Or the negative of a mean of absolute or squared differences is minimised and runs away. Or the mean logarithm of a probability is minimised. Or the gradient of a loss of any kind pushes nearly all outputs away from a target of classes or of zeros and ones. Or it pushes all outputs of a linear layer one way by one number, those of several calls, and the optimizer holds the layer's bias. Or a loss of any kind falls below zero without bound, or faster and faster, while its gradients grow."
why = "Gradient descent then climbs: the loss falls without bound below zero while predictions get worse."
not_this = "Adversarial training with several optimizers, a negative loss beside a positive one. Log-densities, which fall below zero by logarithms, not by powers of ten."
source = "Sign of the gradient that backward brings to the loss operator. A loss that has a minimum has vanishing gradients there, not growing ones."
*/
-- shared
WITH one AS (
    SELECT rank FROM param_groups GROUP BY rank HAVING count(DISTINCT optimizer_id) = 1
), losses AS (
    SELECT b.rank, b.step, b.microbatch, min(b.loss_gradient) AS value, max(b.loss_gradient) AS high,
        any_value(b.loss_op) AS loss_op
    FROM batches b
    WHERE b.role = 'target' AND b.loss_gradient IS NOT NULL AND b.phase <> 'eval' AND b.loss_op <> 'KlDiv'
    GROUP BY b.rank, b.step, b.microbatch
), course AS (
    SELECT o.rank, o.n, o.step, o.loss, o.norm, count(*) OVER (PARTITION BY o.rank) AS total,
        max(o.step) FILTER (o.loss >= 0) OVER (PARTITION BY o.rank) AS last_positive
    FROM optimizer_series o JOIN one ON one.rank = o.rank WHERE isfinite(o.loss)
), directions AS (
    SELECT rank, step, n, upward, lag(upward) OVER (PARTITION BY rank ORDER BY step) AS before FROM (
        SELECT rank, step, bool_and(coalesce(TRY_CAST(settings->>'$.maximize' AS BOOLEAN), false)) AS upward,
            row_number() OVER (PARTITION BY rank ORDER BY step) AS n
        FROM param_groups JOIN one USING (rank) GROUP BY rank, step
    )
), runaway AS (
    SELECT rank, min(step) FILTER (step > coalesce(last_positive, -1)) AS step,
        median(loss) FILTER (n >= total - $edge) AS value,
        max(abs(loss)) FILTER (n < $edge) AS before
    FROM course GROUP BY rank
    HAVING count(*) >= $least_runaway
        AND median(loss) FILTER (n >= total - $edge) < -$runaway * max(abs(loss)) FILTER (n < $edge)
        AND max(loss) FILTER (n >= $late * total) < 0
        -- still on its way, or so far below that it does not matter
        AND (median(loss) FILTER (n >= $late * total) < $on_its_way * median(loss)
            FILTER (n BETWEEN $early * total AND $half * total)
            OR median(loss) FILTER (n >= total - $edge) < -$runaway * $runaway * max(abs(loss))
                FILTER (n < $edge))
        AND median(norm) FILTER (n >= total - $edge) > $gradients * $runaway * median(norm) FILTER (n < $edge)
)
-- detector: turned_round
SELECT e.rank, min((e.detail ->> '$.since')::BIGINT) AS step, any_value(m.module) AS module,
    e.detail ->> '$.field' AS field,
    max((e.detail ->> '$.share')::DOUBLE) AS value, max((e.detail ->> '$.looks')::BIGINT) AS looks,
    'turned_round' AS what_
FROM events e JOIN one ON one.rank = e.rank
JOIN modules m ON m.rank = e.rank AND m.module_id = e.module_id
WHERE e.event = 'loss-turned-round'
GROUP BY e.rank, field
-- detector: one_way
SELECT e.rank, (e.detail ->> '$.since')::BIGINT AS step, coalesce(nullif(m.module, ''), m.model) AS module,
    (e.detail ->> '$.calls')::BIGINT AS calls, (e.detail ->> '$.looks')::BIGINT AS looks,
    (e.detail ->> '$.elements')::BIGINT AS value, 'one_way' AS what_,
    CASE e.detail ->> '$.direction' WHEN 'up' THEN 'up' ELSE 'down' END AS direction_
FROM events e
JOIN modules m ON m.rank = e.rank AND m.module_id = e.module_id
WHERE e.event = 'loss-one-way'
-- detector: negative_class_weight
SELECT b.rank, min(b.step) AS step, min(list_min(b.class_weights)) AS value, any_value(b.loss_op) AS loss_op,
    'negative_class_weight' AS what_
FROM batches b
WHERE b.role = 'target' AND b.phase <> 'eval' AND list_min(b.class_weights) < 0
GROUP BY b.rank
-- detector: negative_weight
SELECT l.rank, l.step, l.microbatch, l.value, l.loss_op, 'negative_weight' AS what_
FROM losses l JOIN one ON one.rank = l.rank
JOIN (SELECT rank, step, avg(loss) AS loss FROM steps GROUP BY rank, step) s ON s.rank = l.rank
    AND s.step = l.step
WHERE l.value < 0
  AND l.high <= 0
  AND s.loss <= 0
  AND NOT EXISTS (FROM directions d WHERE d.rank = l.rank AND d.step = l.step AND d.upward)
-- detector: maximised
WITH turned AS (
    -- an optimizer that maximises, from the start or from some step on, what counts as an error
    SELECT d.rank, d.step, d.before IS NOT NULL AS later, l.value, l.loss_op FROM directions d
    JOIN losses l ON l.rank = d.rank AND l.step = d.step AND l.value > 0 AND l.microbatch = 0
    WHERE d.upward AND NOT coalesce(d.before, false) AND (d.n = 1 OR d.before IS NOT NULL)
)
SELECT t.rank, t.step, t.value, t.loss_op, 'maximised' AS what_
FROM turned t JOIN (
    SELECT rank, median(loss) FILTER (n < $edge) AS at_first,
        median(loss) FILTER (n >= total - $edge) AS at_last
    FROM course
    GROUP BY rank
    HAVING count(*) >= $least
) c ON c.rank = t.rank
WHERE t.later OR c.at_last > $worse * abs(c.at_first)
-- detector: written_by_hand
SELECT p.rank, p.step, c.value, -c.before AS at_first, p.op AS operator,
    CASE p.saved WHEN 'probability' THEN 'log_probability' WHEN 'absolute' THEN 'negative_absolute_error'
        ELSE 'negative_square_error' END AS what_
FROM operators p JOIN one ON one.rank = p.rank
JOIN (
    SELECT rank, median(loss) FILTER (n >= total - $edge) AS value,
        median(abs(loss)) FILTER (n < $edge) AS before
    FROM course
    GROUP BY rank
    HAVING count(*) >= $least
) c ON c.rank = p.rank
WHERE p.trigger = 'risk' AND p.saved IN ('absolute', 'square', 'probability') AND c.value < 0
  -- an error that is wanted large, in moderation, does not run away
  AND (c.value < -$worse * c.before
      OR (SELECT min(q.step)
          FROM operators q
          WHERE q.rank = p.rank AND q.saved = p.saved AND q.trigger = 'risk') > 0)
-- detector: falls_without_bound
SELECT rank, step, value, before AS at_first, 'falls_without_bound' AS what_ FROM runaway
-- detector: gains_speed
WITH way AS (
    -- the way below zero in thirds: a density falls at a steady pace at most, a bounded loss slows down, what
    -- has no minimum gains speed
    SELECT *, floor($parts * (row_number() OVER ordered - 1) / count(*) OVER (PARTITION BY rank)) AS third
    FROM course
    WHERE last_positive IS NOT NULL AND step > last_positive WINDOW ordered AS (PARTITION BY rank ORDER BY n)
), gaining AS (
    SELECT w.rank, arg_max(w.loss, w.n) AS value, arg_max(w.loss, w.n) FILTER (w.third = 0) AS first_end,
        arg_max(w.loss, w.n) FILTER (w.third = 1) AS second_end
    FROM way w
    JOIN course c ON c.rank = w.rank AND c.n = w.n
    GROUP BY w.rank
    HAVING count(*) >= $least_way
       AND first_end - second_end > $gaining * -first_end
       AND second_end - value > $gaining * (first_end - second_end)
), splits AS (
    SELECT rank, n, step, norm,
        max(norm) OVER (PARTITION BY rank
            ORDER BY n ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS largest_before,
        min(norm) OVER (PARTITION BY rank
            ORDER BY n ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS least_after
    FROM course
), climbs AS (
    -- it began where the gradients left, for good and in one step, all that they had been; else with the run
    SELECT g.rank, g.value, c.before,
        coalesce((SELECT min(s.step)
            FROM splits s
            WHERE s.rank = g.rank AND s.n >= $settled AND s.least_after > $leap * s.largest_before),
            0) AS step
    FROM gaining g JOIN (
        SELECT rank, max(abs(loss)) FILTER (n < $edge) AS before FROM course GROUP BY rank
        HAVING median(norm) FILTER (n >= total - $edge) > $gradients * $runaway * median(norm)
            FILTER (n < $edge)
    ) c ON c.rank = g.rank WHERE g.value < -$below * c.before AND g.rank NOT IN (SELECT rank FROM runaway)
)
SELECT rank, step, value, before AS at_first, 'gains_speed' AS what_ FROM climbs
-- together
ORDER BY step, rank, microbatch
