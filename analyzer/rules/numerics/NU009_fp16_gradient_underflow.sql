/*
code = "NU009"
name = "fp16-gradient-underflow"
severity = "error"
phase = "backward"
signal = "zero_count"
message = "From step {step} on the float16 gradients underflow in {bad} of {total} steps, without loss scaling. {percent} % of their elements are {which_}, and the largest is {largest}. float16 loses digits below 6.1e-5 and ends at 6e-8."
fix = "Scale the loss (torch.amp.GradScaler), or train in bfloat16, whose exponent reaches as far as float32's."
seeks = ["tensors: kind IN ('gradient', 'activation_gradient') AND dtype = 'float16'"]
explains = ["gradients-vanish", "update-lost-to-rounding", "lr-too-low", "nothing-learnt", "silent-backend-noop", "dead-relu", "broken-graph", "optimizer-eps-underflow"]
[say.which_]
zero = "exactly zero"
subnormal = "zero or too small for all of their digits"
[params.share]
value = 0.5
doc = "Share of exact zeros among all elements of float16 gradients."
source = "convention: of this project, half of the elements: the rest is enough to learn from"
[params.normal]
value = 6.1035e-5
doc = "Smallest normal number of float16."
source = "arithmetic: 2^-14"
[params.usual]
value = 4.8e-7
doc = "Root mean square of the elements that are not zero, below which a tensor counts: eight times the smallest number of float16."
source = "arithmetic: eight times 2^-24"
[params.subnormal]
value = 0.9
doc = "Share of all elements that lie in tensors without one normal number and with half of float16's digits gone."
source = "convention: of this project, nearly all"
[params.halved]
value = 2.7e-6
doc = "Root mean square of the elements that are not zero, below which half of float16's eleven binary digits are gone: 2^-24 times 2^5.5."
source = "arithmetic: 2^-24 times 2^5.5"
[params.least]
value = 5
unit = "steps"
doc = "Steps in which it is so."
source = "convention: of this project, one step may be odd"
[params.alive]
value = 0.02
unit = "of the largest"
doc = "Loss over the largest, above which there is something to learn."
source = "convention: of this project, a fiftieth"
[params.most]
value = 0.6
unit = "of the steps"
doc = "Share of the steps in which it is so."
source = "convention: of this project, six of ten"
[params.smallest]
value = 5.96e-8
doc = "Smallest number of float16 above zero."
source = "arithmetic: 2^-24"
[needs]
tables = ["steps", "tensor_stats"]
columns = ["tensor_stats.zero_count"]
[doc]
what = "In most steps more than half of all elements of float16 gradients are exactly zero. These are gradients of weights, or of activations under autocast. The largest element of these tensors is below the smallest normal number of float16. The others are a few steps above zero. Or nearly all elements are zero or subnormal, in tensors that have lost half of their digits. Or all are zero, from the model's output on, and the loss is smaller than the smallest number of float16 for each element of that output."
why = "What is smaller than 6e-8 becomes zero in float16. Those weights get no gradient."
not_this = "Zeros beside gradients of ordinary size (ReLU, unused rows), bfloat16, runs with a GradScaler. Losses that have fallen to nearly nothing."
source = "IEEE 754 binary16: smallest normal 2^-14, smallest subnormal 2^-24. The half is the catalogue's."
*/
-- detector: most_of_them
WITH half AS (
    SELECT rank, tensor_id, kind
    FROM tensors
    WHERE kind IN ('gradient', 'activation_gradient') AND dtype = 'float16'
), each_ AS (
    SELECT s.rank, s.step, h.kind, s.numel, s.zero_count, greatest(abs(s.min), abs(s.max)) AS size,
        greatest(abs(s.min), abs(s.max)) < $normal
            AND coalesce(sqrt(s.sum_sq / nullif(s.numel - s.zero_count, 0)) < $usual, true) AS small,
        greatest(abs(s.min), abs(s.max)) < $normal
            AND coalesce(sqrt(s.sum_sq / nullif(s.numel - s.zero_count, 0)) < $halved, true) AS subnormal
    FROM tensor_stats s JOIN half h ON h.rank = s.rank AND h.tensor_id = s.tensor_id
    WHERE NOT coalesce(s.missing, false) AND s.nan_count + s.inf_count = 0 AND s.zero_count IS NOT NULL
), sized AS (
    -- of weights, or of activations: whichever kind is worse off
    SELECT * FROM (
        SELECT rank, step, kind, sum(numel) AS numel, coalesce(sum(zero_count) FILTER (small), 0) AS zeros,
            max(size) FILTER (small OR subnormal) AS largest_small,
            coalesce(sum(numel) FILTER (subnormal), 0) AS subnormal
        FROM each_ GROUP BY rank, step, kind)
    QUALIFY row_number() OVER (PARTITION BY rank, step
        ORDER BY zeros > $share * numel
          AND largest_small > 0 DESC NULLS LAST, kind = 'gradient'
          AND subnormal > $subnormal * numel DESC, zeros / numel DESC, kind) = 1
), judged AS (
    SELECT z.*, CASE WHEN z.zeros > $share * z.numel THEN z.zeros ELSE z.subnormal END / z.numel AS share,
        z.zeros > $share * z.numel AS zero,
        coalesce((z.zeros > $share * z.numel OR (z.subnormal > $subnormal * z.numel AND z.kind = 'gradient'))
            AND z.largest_small > 0, false) AS bad_step,
        abs(t.loss) > $alive * max(abs(finite(t.loss))) OVER (PARTITION BY z.rank) AS alive
    FROM sized z JOIN step_series t ON t.rank = z.rank AND t.step = z.step
), first_ AS (
    SELECT rank, min(step) AS step FROM judged WHERE bad_step AND alive GROUP BY rank
)
SELECT j.rank, f.step, median(j.share) FILTER (j.bad_step) AS value,
    percent_of(median(j.share) FILTER (j.bad_step)) AS percent,
    if(2 * count(*) FILTER (j.bad_step AND j.zero) >= count(*) FILTER (j.bad_step), 'zero', 'subnormal')
        AS which_,
    max(j.largest_small) FILTER (j.bad_step) AS largest, count(*) FILTER (j.bad_step) AS bad,
        count(*) AS total
FROM judged j JOIN first_ f ON f.rank = j.rank AND j.step >= f.step
WHERE j.rank NOT IN (SELECT rank FROM steps WHERE loss_scale > 1)
GROUP BY j.rank, f.step
HAVING count(*) FILTER (j.bad_step AND j.alive) >= $least AND count(*) FILTER (j.bad_step) >= $most * count(*)
-- detector: all_of_them
WITH at_output AS (
    -- of every model: the gradient at the output of the module that runs last
    SELECT s.rank, s.step, max_by(s.zero_count = s.numel, m.call_order) AS zero,
        max_by(s.numel, m.call_order) AS numel,
        max_by(t.dtype, m.call_order) AS dtype
    FROM tensor_stats s
    JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id AND t.kind = 'activation_gradient'
    JOIN modules m ON m.rank = t.rank AND m.module_id = t.module_id
    GROUP BY s.rank, s.step
)
SELECT o.rank, min(o.step) AS step, 1.0 AS value, percent_of(1.0) AS percent, 'zero' AS which_,
    0.0 AS largest,
    count(*) AS bad, count(*) AS total
FROM at_output o JOIN step_series t ON t.rank = o.rank AND t.step = o.step
WHERE o.dtype = 'float16' AND o.rank NOT IN (SELECT rank FROM steps WHERE loss_scale > 1)
GROUP BY o.rank
HAVING bool_and(coalesce(o.zero, false) AND t.loss <> 0 AND abs(t.loss) < o.numel * $smallest)
    AND count(*) >= $least
-- together
ORDER BY step, rank
