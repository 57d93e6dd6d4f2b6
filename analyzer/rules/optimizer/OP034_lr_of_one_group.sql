/*
code = "OP034"
name = "lr-of-one-group"
severity = "error"
phase = "optimizer"
signal = "lr"
message = "From step {step} on {what_}"
fix = "{remedy}"
seeks = ["param_groups: group_id IS DISTINCT FROM 0"]
[say.what_]
first_alone = "the learning rate of parameter group 0 goes its own way, from {highest} down to {value}. The other {others} groups began with the same rate and keep {kept} to the end. No scheduler sets it: the script sets param_groups[0][\"lr\"] alone."
one_for_all = "all {groups} parameter groups train with one learning rate, {value} at first, although the script gave them rates of their own, {lowest} to {highest}. What sets the rate takes one number for all groups."
[say.remedy]
first_alone = "Set the rate of all groups: for group in optimizer.param_groups: group[\"lr\"] = lr."
one_for_all = "Scale the rate of each group: group[\"lr\"] = group[\"initial_lr\"] * factor, as torch's schedulers do. Or give the scheduler a list with one rate for each group."
[params.fallen]
value = 0.5
unit = "of the highest"
doc = "Rate of group 0 at its lowest."
source = "convention: of this project, half of it is a schedule and no correction"
[params.several]
value = 3
unit = "rates"
doc = "Different rates of group 0 from which it has a schedule."
source = "arithmetic: two are one change, three are a course"
[params.apart]
value = 2.0
unit = "times"
doc = "Rates that groups were given, the highest against the lowest."
source = "convention: of this project, twice is no rounding of one rate"
[params.least]
value = 20
unit = "steps"
doc = "Steps of the optimizer from which a constant rate says something."
source = "convention: of this project, a few steps are a trial"
[params.rounding]
value = 1e-6
unit = "of the rate"
doc = "Difference of two rates that are equal."
source = "arithmetic: float64 after a few products"
[needs]
tables = ["param_groups", "steps"]
[doc]
what = "An optimizer has several parameter groups that begin with the same learning rate. The script changes the rate of the first one by itself, and those of the others never. Or groups were given rates of their own, and all train with one rate from the first step to the last."
why = "The other groups, often norms and biases, or the head, train on with a rate that was meant for the beginning."
not_this = "Groups with rates of their own that keep their distance. A first group with a scheduler. Groups that change at other times. A single change of one group."
source = "PyTorch's documentation: options of an optimizer are kept for each parameter group. Counting."
*/
-- detector: first_alone
WITH courses AS (
    SELECT g.rank, g.optimizer_id, g.group_id, min(g.lr) AS lowest, max(g.lr) AS highest,
        count(DISTINCT g.lr) AS rates, count(DISTINCT g.step) AS steps_, max(g.numel) AS numel
    FROM param_groups g
    WHERE NOT EXISTS (FROM schedulers s WHERE s.rank = g.rank AND s.optimizer_id = g.optimizer_id)
    GROUP BY g.rank, g.optimizer_id, g.group_id
), kept AS (
    SELECT rank, optimizer_id, count(*) AS others, min(lowest) AS lowest, max(highest) AS kept
    FROM courses WHERE group_id > 0 GROUP BY rank, optimizer_id
    HAVING max(rates) = 1 AND min(numel) > 0 AND max(highest) - min(lowest) <= $rounding * max(highest)
)
SELECT c.rank, min(g.step) AS step, c.optimizer_id, c.lowest AS value, c.highest, k.kept, k.others,
    'first_alone' AS what_, what_ AS remedy
FROM courses c
JOIN kept k ON k.rank = c.rank AND k.optimizer_id = c.optimizer_id
JOIN param_groups g ON g.rank = c.rank AND g.optimizer_id = c.optimizer_id AND g.group_id = 0
    AND abs(g.lr - k.kept) > $rounding * k.kept
WHERE c.group_id = 0 AND c.steps_ >= $least AND c.rates >= $several AND c.lowest <= $fallen * c.highest
  AND abs(c.highest - k.kept) <= $rounding * k.kept
GROUP BY ALL
-- detector: one_for_all
WITH rates AS (
    SELECT rank, optimizer_id, step, count(*) AS groups, min(lr) AS lr, max(lr) AS most,
        min((settings ->> '$.initial_lr')::DOUBLE) AS lowest,
        max((settings ->> '$.initial_lr')::DOUBLE) AS highest
    FROM param_groups WHERE json_valid(settings)
    GROUP BY rank, optimizer_id, step
)
SELECT rank, min(step) AS step, optimizer_id, arg_min(lr, step) AS value, max(highest) AS highest,
    min(lowest) AS lowest, min(groups) AS groups, 'one_for_all' AS what_, what_ AS remedy
FROM rates
GROUP BY rank, optimizer_id
HAVING count(*) >= $least AND min(groups) > 1 AND min(lowest) > 0 AND min(highest / lowest) >= $apart
    AND bool_and(most - lr <= $rounding * most) AND max(lr) > 0
-- together
ORDER BY step, rank, optimizer_id
