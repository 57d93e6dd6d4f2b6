/*
code = "MO006"
name = "dead-relu"
severity = "error"
phase = "forward"
signal = "zero_fraction"
message = "These units no longer learn: {zero_percent} % of {tensor} are exactly zero from step {step} on ({steps} steps). The gradient of the weights before it ({producer_}) is {gradient_}."
fix = "Lower the learning rate or clip gradients if it began with a large update. Check the bias and the init of {producer_}. LeakyReLU or GELU keep a gradient on the negative side."
seeks = [
    "tensor_stats: phase = 'forward' AND numel > 0 AND min = 0 AND zero_count >= $fraction * numel AND step >= least($steps, $at_the_end) - 2",
]
explains = ["loss-off-course", "gradients-vanish", "shuffled-labels", "representation-collapse"]
tames = ["frozen-by-zero-gradient"]
reach = 20
[say.producer_]
root = "the root"
named = "{producer}"
[say.gradient_]
zero = "exactly zero"
collapsed = "{now:.3g}, after {before:.3g} before"
[params.fraction]
value = 0.98
doc = "Share of exact zeros; healthy ReLU units are zero about half of the time."
source = "convention: of this project, an ordinary ReLU unit is zero half of the time: 98 % of a layer is no sample of that"
[params.steps]
value = 8
unit = "steps"
doc = "Consecutive steps; 4 are enough where they reach the end of the run."
source = "convention: of this project, one batch may be odd, eight in a row are not"
[params.at_the_end]
value = 4
unit = "steps"
doc = "The same where they reach the end of the run."
source = "convention: of this project, half of it"
[params.few]
value = 8
unit = "units"
doc = "Units of a layer that may all be negative at its first step by chance: it is advice then."
source = "arithmetic: each is with a chance of a half, eight of eight in one layer of 256"
[params.earlier]
value = 5
unit = "steps"
doc = "Steps with a gradient before."
source = "convention: of this project, fewer do not show what is usual"
[params.hardly]
value = 0.02
unit = "of the usual"
doc = "Gradient over that before, that is next to none."
source = "convention: of this project, a fiftieth"
[needs]
tables = ["steps", "modules"]
kinds = ["activation", "gradient"]
steps = 4
[doc]
what = "An activation that cannot be negative is zero in nearly every element for several steps. The weights that feed it get an exactly zero or collapsed gradient."
why = "Where the input of a ReLU is negative for every sample the gradient is zero, so nothing moves it back."
not_this = "Dropout, sparse inputs and one-hot codes, gates and experts: their feeding weights still get gradients. Zero-initialised branches in their first steps, single numbers, hinges whose loss is zero. A layer of few units that begins so by chance is advice."
source = "Arithmetic: derivative of max(0, x)."
*/
-- shared
WITH acts AS (
    SELECT s.rank, s.tensor_id, s.step, min(s.zero_count / s.numel) AS zeros, min(s.seq) AS seq,
        max(s.numel) AS numel,
        bool_and(s.min = 0 AND s.zero_count >= $fraction * s.numel AND s.nan_count + s.inf_count = 0) AS dead
    FROM tensor_stats s
    JOIN tensors t ON t.rank = s.rank
        AND t.tensor_id = s.tensor_id
        AND t.kind = 'activation'
        AND t.dtype LIKE '%float%'
    WHERE s.phase = 'forward' AND s.numel > 0 AND coalesce(s.requires_grad, true)
      AND (s.rank, s.tensor_id) IN (SELECT (rank, tensor_id)
          FROM tensor_stats
          WHERE min = 0 AND zero_count >= $fraction * numel)
    GROUP BY s.rank, s.tensor_id, s.step
), islands AS (
    SELECT *,
        row_number() OVER (PARTITION BY rank, tensor_id
            ORDER BY step) - row_number() OVER (PARTITION BY rank, tensor_id, dead
            ORDER BY step) AS island,
        max(step) OVER (PARTITION BY rank, tensor_id) AS last_step
    FROM acts
), stretches AS (
    SELECT rank, tensor_id, min(step) AS step, max(step) AS until_, count(*) AS steps, min(zeros) AS zeros,
        arg_min(seq, step) AS seq, max(numel) AS numel
    FROM islands WHERE dead GROUP BY rank, tensor_id, island, last_step
    -- a single number is a loss or a weight of one rather than an activation
    HAVING max(numel) > 1 AND (count(*) >= $steps OR (count(*) >= $at_the_end AND max(step) = last_step))
)
-- detector: sites
-- whose weights feed it: the last module with parameters inside the module, else the last one called
-- before it
SELECT x.*, t.tensor_name AS tensor, t.module_id, m.model, m.module, m.class_name, m.call_order,
    coalesce(
        CASE WHEN t.tensor_name NOT LIKE '%:input%' THEN (
            SELECT arg_max(i.module_id, i.call_order) FROM module_tree i
            WHERE i.rank = x.rank
              AND i.ancestor_id = t.module_id
              AND i.module_id IN (SELECT p.module_id
                  FROM parameters p
                  WHERE p.rank = x.rank AND p.gradient_id IS NOT NULL)) END,
        (SELECT arg_max(p.module_id, p.call_order) FROM parameters p
         WHERE p.rank = x.rank
           AND p.model = m.model
           AND p.call_order < m.call_order
           AND p.gradient_id IS NOT NULL)) AS producer_id
FROM stretches x
JOIN tensors t ON t.rank = x.rank AND t.tensor_id = x.tensor_id
JOIN modules m ON m.rank = t.rank AND m.module_id = t.module_id
-- together
WITH gradients AS (
    SELECT s.rank, s.tensor_id, s.step AS since, max(p.shape[1]) AS units,
        sqrt(avg(g.sum_sq) FILTER (g.step BETWEEN s.step AND s.until_)) AS now_,
        count(*) FILTER (g.step BETWEEN s.step AND s.until_ AND NOT g.missing) AS measured,
        median(sqrt(g.sum_sq)) FILTER (g.step < s.step) AS before_,
            count(*) FILTER (g.step < s.step AND g.sum_sq > 0) AS earlier
    FROM sites s
    JOIN parameters p ON p.rank = s.rank AND p.module_id = s.producer_id AND p.requires_grad
    JOIN param_steps g ON g.rank = p.rank AND g.tensor_id = p.tensor_id AND g.nonfinite_count = 0
    GROUP BY s.rank, s.tensor_id, s.step
), later AS (
    SELECT s.rank, s.tensor_id, s.step AS since, sqrt(max(g.sum_sq)) AS later_
    FROM sites s
    JOIN parameters p ON p.rank = s.rank
        AND p.model = s.model
        AND p.call_order >= s.call_order
        AND p.module_id <> s.producer_id
    JOIN param_steps g ON g.rank = p.rank
        AND g.tensor_id = p.tensor_id
        AND g.step BETWEEN s.step AND s.until_
        AND g.nonfinite_count = 0
    GROUP BY s.rank, s.tensor_id, s.step
)
SELECT s.rank, s.step, s.seq, CASE WHEN s.tensor LIKE '%:input%' THEN p.module ELSE s.module END AS module,
    s.tensor, s.class_name,
    s.zeros AS value, round(100 * s.zeros, 2) AS zero_percent, s.steps, s.numel,
    p.module AS producer, CASE p.module WHEN '' THEN 'root' ELSE 'named' END AS producer_,
    if(g.units <= $few AND first.dead, 'warning', 'error') AS severity,
    g.now_ AS now, g.before_ AS before, CASE g.now_ WHEN 0 THEN 'zero' ELSE 'collapsed' END AS gradient_
FROM sites s
JOIN modules p ON p.rank = s.rank AND p.module_id = s.producer_id
JOIN gradients g ON g.rank = s.rank AND g.tensor_id = s.tensor_id AND g.since = s.step
JOIN (SELECT rank, tensor_id, arg_min(dead, step) AS dead FROM acts GROUP BY ALL) first
    ON first.rank = s.rank AND first.tensor_id = s.tensor_id
LEFT JOIN later l ON l.rank = s.rank AND l.tensor_id = s.tensor_id AND l.since = s.step
WHERE g.measured > 0
  -- a hinge whose margin is met puts out zeros, and then the loss is zero as well
  AND NOT EXISTS (
    SELECT 1
    FROM steps z
    WHERE z.rank = s.rank AND z.step BETWEEN s.step AND s.until_
    GROUP BY z.rank
    HAVING median(finite(z.loss)) = 0)
  AND ((s.zeros = 1 AND g.now_ = 0)
      OR (g.earlier >= $earlier AND g.now_ < $hardly * g.before_ AND l.later_ > 0))
  -- dropout and embeddings make zeros by design
  AND NOT regexp_matches(s.class_name, '(?i)(dropout|embedding)')
ORDER BY s.step, s.rank, s.seq
