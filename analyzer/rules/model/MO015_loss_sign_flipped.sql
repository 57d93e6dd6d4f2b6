/*
code = "MO015"
name = "loss-sign-flipped"
severity = "error"
phase = "loss"
signal = "loss_gradient"
message = "From step {step} on {what_}."
fix = "Minimise the loss itself; look for a minus sign or a maximise=True."
explains = ["divergence", "exploding-gradients", "loss-spike", "underfit", "logit-drift", "lr-too-high", "overfit", "silent-backend-noop", "silent-data-corruption"]
[params.runaway]
value = 1000.0
unit = "times"
doc = "How far below zero a loss of any kind must have run, in sizes of its first steps; gradients a tenth of that."
[params.gaining]
value = 1.8
unit = "times"
doc = "How much more a loss that has run below zero falls in each third of its way than in the third before."
[params.below]
value = 10.0
unit = "times"
doc = "How far below zero a loss that gains speed must have run, in sizes of its first steps."
[params.worse]
value = 2.0
unit = "times"
doc = "How far an error that is maximised must have grown, where it was so from the start."
[needs]
tables = ["steps", "param_groups"]
[doc]
what = "A loss that cannot be negative (cross entropy, squared error \u2026) and is the only loss of the step enters the total with a negative weight, in a run with one optimizer; or the one optimizer maximises such a loss that counts with a positive weight; or the negative of a mean of absolute or squared differences is minimised and runs away; or the mean logarithm of a probability is; or a loss of any kind falls below zero without bound, or faster and faster, while its gradients grow."
why = "Gradient descent then climbs: the loss falls without bound below zero while predictions get worse."
not_this = "Adversarial training with several optimizers, a negative loss beside a positive one; log-densities, which fall below zero by logarithms, not by powers of ten."
source = "Sign of the gradient that backward brings to the loss operator; a loss that has a minimum has vanishing gradients there, not growing ones."
*/
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
), turned AS (
    -- an optimizer that maximises, from the start or from some step on, what counts as an error
    SELECT d.rank, d.step, d.before IS NOT NULL AS later, l.value, l.loss_op FROM directions d
    JOIN losses l ON l.rank = d.rank AND l.step = d.step AND l.value > 0 AND l.microbatch = 0
    WHERE d.upward AND NOT coalesce(d.before, false) AND (d.n = 1 OR d.before IS NOT NULL)
), runaway AS (
    SELECT rank, min(step) FILTER (step > coalesce(last_positive, -1)) AS step,
        median(loss) FILTER (n >= total - 8) AS value,
        max(abs(loss)) FILTER (n < 8) AS before
    FROM course GROUP BY rank
    HAVING count(*) >= 20 AND median(loss) FILTER (n >= total - 8) < -$runaway * max(abs(loss)) FILTER (n < 8)
        AND max(loss) FILTER (n >= 0.75 * total) < 0
        -- still on its way, or so far below that it does not matter
        AND (median(loss) FILTER (n >= 0.75 * total) < 3 * median(loss)
            FILTER (n BETWEEN 0.25 * total AND 0.5 * total)
            OR median(loss) FILTER (n >= total - 8) < -$runaway * $runaway * max(abs(loss)) FILTER (n < 8))
        AND median(norm) FILTER (n >= total - 8) > $runaway / 10 * median(norm) FILTER (n < 8)
), way AS (
    -- the way below zero in thirds: a density falls at a steady pace at most, a bounded loss slows down, what
    -- has no minimum gains speed
    SELECT *, floor(3.0 * (row_number() OVER ordered - 1) / count(*) OVER (PARTITION BY rank)) AS third
    FROM course
    WHERE last_positive IS NOT NULL AND step > last_positive WINDOW ordered AS (PARTITION BY rank ORDER BY n)
), gaining AS (
    SELECT w.rank, arg_max(w.loss, w.n) AS value
    FROM way w
    JOIN course c ON c.rank = w.rank AND c.n = w.n
    GROUP BY w.rank
    HAVING count(*) >= 18
       AND arg_max(w.loss, w.n) FILTER (w.third = 0) - arg_max(w.loss,
           w.n) FILTER (w.third = 1) > $gaining * -arg_max(w.loss, w.n) FILTER (w.third = 0)
       AND arg_max(w.loss, w.n) FILTER (w.third = 1) - arg_max(w.loss,
           w.n) > $gaining * (arg_max(w.loss, w.n) FILTER (w.third = 0) - arg_max(w.loss,
               w.n) FILTER (w.third = 1))
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
            WHERE s.rank = g.rank AND s.n >= 5 AND s.least_after > 1.5 * s.largest_before),
            0) AS step
    FROM gaining g JOIN (
        SELECT rank, max(abs(loss)) FILTER (n < 8) AS before FROM course GROUP BY rank
        HAVING median(norm) FILTER (n >= total - 8) > $runaway / 10 * median(norm) FILTER (n < 8)
    ) c ON c.rank = g.rank WHERE g.value < -$below * c.before AND g.rank NOT IN (SELECT rank FROM runaway)
)
SELECT l.rank, l.step, l.microbatch, l.value, l.loss_op,
    printf('%s counts with weight %.3g in what is minimised: a negative weight makes the model worse on purpose',
        l.loss_op, l.value) AS what_
FROM losses l JOIN one ON one.rank = l.rank
JOIN (SELECT rank, step, avg(loss) AS loss FROM steps GROUP BY rank, step) s ON s.rank = l.rank
    AND s.step = l.step
WHERE l.value < 0
  AND l.high <= 0
  AND s.loss <= 0
  AND NOT EXISTS (FROM directions d WHERE d.rank = l.rank AND d.step = l.step AND d.upward)
UNION ALL BY NAME
SELECT t.rank, t.step, t.value, t.loss_op,
    printf('the optimizer maximises (maximize=True) while %s counts with a positive weight: the error is made as large as it can be',
        t.loss_op) AS what_
FROM turned t JOIN (
    SELECT rank, median(loss) FILTER (n < 8) AS at_first, median(loss) FILTER (n >= total - 8) AS at_last
    FROM course
    GROUP BY rank
    HAVING count(*) >= 12
) c ON c.rank = t.rank
WHERE t.later OR c.at_last > $worse * abs(c.at_first)
UNION ALL BY NAME
SELECT p.rank, p.step, c.value, CASE WHEN p.saved = 'probability'
    THEN printf('the mean logarithm of a probability is minimised (%s), and it has fallen from %.3g to %.3g: what should be likely is made as unlikely as it can be',
        p.op, -c.before, c.value)
    ELSE printf('the negative of a mean of %s differences is minimised, and it has fallen from %.3g to %.3g: the error is made as large as it can be',
        p.saved, -c.before, c.value)
        END AS what_
FROM operators p JOIN one ON one.rank = p.rank
JOIN (
    SELECT rank, median(loss) FILTER (n >= total - 8) AS value, median(abs(loss)) FILTER (n < 8) AS before
    FROM course
    GROUP BY rank
    HAVING count(*) >= 12
) c ON c.rank = p.rank
WHERE p.trigger = 'risk' AND p.saved IN ('absolute', 'square', 'probability') AND c.value < 0
  -- an error that is wanted large, in moderation, does not run away
  AND (c.value < -$worse * c.before
      OR (SELECT min(q.step)
          FROM operators q
          WHERE q.rank = p.rank AND q.saved = p.saved AND q.trigger = 'risk') > 0)
UNION ALL BY NAME
SELECT rank, step, value,
    printf('the loss is below zero and falls without bound, from sizes of %.3g at first to %.3g, and its gradients grow with it: what is minimised has no minimum',
        before, value) AS what_
FROM runaway
UNION ALL BY NAME
SELECT rank, step, value,
    printf('the loss heads below zero, faster and faster, from sizes of %.3g at first to %.3g, and its gradients grow with it: what is minimised has no minimum',
        before, value) AS what_
FROM climbs
ORDER BY step, rank, microbatch
