/*
code = "OP037"
name = "lr-decay-compounded"
severity = "error"
phase = "optimizer"
signal = "lr"
message = "Each decay of the learning rate is made of the rate that earlier ones have left. It took {first_taken} of the rate at step {first_step}, {second_taken} at step {step}{third_}. {form_}. After {changes} decays the rate is {last} of {start}."
fix = "Compute the rate from the first one (base_lr * factor(epoch)), or multiply by the same factor each time. A scheduler of torch.optim.lr_scheduler does the former."
explains = ["plateau", "underfit", "lr-too-low"]
[say.third_]
a_third = " and {third_taken} at the next change"
[say.form_]
power = "The factors are powers that grow with the count, as of lr = lr * factor ** epoch"
linear = "What is taken away grows with the count, as of lr = lr * (1 - epoch / epochs)"
inverse = "The divisors grow with the count, as of lr = lr / (1 + decay * epoch)"
[params.begins]
value = 3
unit = "decays"
doc = "Largest count that the first decay may have had: a script counts epochs from 0, 1 or 2."
source = "convention: of this project; half a count, as the first step of a cosine has, is none"
[params.looked_at]
value = 8
unit = "decays"
doc = "First decays that are looked at: a smallest rate may end the series."
source = "convention: of this project"
[params.same]
value = 1e-4
unit = "relative"
doc = "Distance of what a decay takes from its multiple of what the first one took."
source = "arithmetic: rates are doubles; a cosine that begins as a square leaves it by as much after a hundredth of its way"
[params.few]
value = 3
unit = "decays"
doc = "Decays that show the form, whatever they take."
source = "convention: of this project, two rates written by hand may stand so by chance"
[params.second]
value = 2
unit = "decays"
doc = "The decay that first shows that it is made of what the one before has left."
source = "arithmetic: one decay is the same either way"
[params.by_hand]
value = 0.5
unit = "factor"
doc = "The first factor of two decays is above it: rates that are written by hand fall by half or more."
source = "convention: of this project"
[needs]
tables = ["param_groups"]
columns = ["param_groups.lr"]
[doc]
what = "The learning rate only falls. What its second decay takes is twice what the first took, the third takes three times as much, and so on, as power, difference or divisor."
why = "A factor that is to be applied to the first rate is applied to the one that is left. After n decays the exponents add up to n (n + 1) / 2, so the training stops learning long before its end."
not_this = "Equal factors. Straight lines, polynomials, cosines and inverse roots, whose decays take other shares. Two rates written by hand."
source = "Arithmetic of the run's own rates."
*/
WITH rates AS (
    SELECT rank, optimizer_id, group_id, step, lr, lag(lr) OVER w AS before, first_value(lr) OVER w AS start,
        last_value(lr) OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS last
    FROM param_groups WHERE lr > 0
    WINDOW w AS (PARTITION BY rank, optimizer_id, group_id ORDER BY step)
), decays AS (
    SELECT rank, optimizer_id, group_id, step, start, last, lr / before AS factor,
        row_number() OVER (w ORDER BY step) AS n, count(*) OVER w AS changes
    FROM rates WHERE lr <> before
    WINDOW w AS (PARTITION BY rank, optimizer_id, group_id)
), taken AS (
    SELECT d.*, u.form,
        CASE u.form
            WHEN 'power' THEN -ln(factor) WHEN 'linear' THEN 1 - factor ELSE 1 / factor - 1 END AS share
    FROM decays d CROSS JOIN (VALUES ('power'), ('linear'), ('inverse')) u (form)
    WHERE d.n <= $looked_at
), grown AS (
    SELECT *, max(share) FILTER (n = 1) OVER w AS first_share,
        max(share) FILTER (n = $second) OVER w - max(share) FILTER (n = 1) OVER w AS each
    FROM taken
    WINDOW w AS (PARTITION BY rank, optimizer_id, group_id, form)
), counted AS (
    SELECT *, round(first_share / each) AS begins FROM grown WHERE first_share > 0 AND each > 0
)
SELECT rank, max(step) FILTER (n = $second) AS step, optimizer_id, group_id, form AS form_,
    max(step) FILTER (n = 1) AS first_step, max(1 - factor) FILTER (n = 1) AS first_taken,
    max(1 - factor) FILTER (n = $second) AS second_taken, max(1 - factor) FILTER (n = $few) AS third_taken,
    CASE WHEN max(n) >= $few THEN 'a_third' END AS third_,
    any_value(start) AS start, any_value(last) AS last, any_value(last) AS value,
    any_value(changes) AS changes
FROM counted
GROUP BY rank, optimizer_id, group_id, form
HAVING min(begins) BETWEEN 1 AND $begins
   AND max(abs(share - each * (begins + n - 1)) / share) <= $same
   AND bool_and(factor < 1)
   AND (count(*) >= $few OR count(*) = $second AND min(begins) = 1 AND max(factor) > $by_hand)
QUALIFY row_number() OVER (PARTITION BY rank, optimizer_id
    ORDER BY group_id, max(abs(share - each * (begins + n - 1)) / share)) = 1
ORDER BY step, rank, optimizer_id
