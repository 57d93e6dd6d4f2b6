/*
code = "NU018"
name = "silent-data-corruption"
severity = "error"
phase = "forward"
signal = "abs_max"
message = "{said_}. Nothing that was recorded before it explains this: the inputs, the other tensors and the last update were as usual."
fix = "Replay step {step} from the last checkpoint on another device. If the jump does not come again, test the memory and the device (rank {rank}). Look also for code that writes into weights or gradients between steps."
explains = ["nonfinite-values", "loss-off-course", "exploding-gradients", "lr-too-high", "dead-relu", "saturated-activation", "nonfinite-operator", "division-by-zero", "exploding-activations", "gradients-vanish", "bad-init-scale", "optimizer-state-drift", "zero-grad-missing", "unnormalised-input", "loss-scale-collapse", "representation-collapse", "unexplained-jump"]
[say.said_]
weight_leapt = "At step {step} the largest element of {tensor} is {value:.4g}, after {size_before:.4g} in the step before, while its update was at most {update_size:.4g}"
weight_overwritten = "At step {step}, before its update, {tensor} held {nonfinite_count} elements of {numel} that are not finite, although loss and gradients of the step before were finite"
gradient_leapt = "At step {step} the gradient of {tensor} alone is {value:.4g}, after at most {peak:.4g} in the steps before"
output_leapt = "At step {step} {tensor} ({class_name}) put out {value:.4g}, after {usual:.4g} on average in all other steps, although nothing before it in the forward pass was larger than usual"
output_lost = "At step {step} {tensor} ({class_name}) put out {nan_count} NaN and {inf_count} infinite elements although its inputs and, after the step before, its weights were finite and small"
[params.weight]
value = 100.0
unit = "times"
doc = "Growth of a weight's largest element from one step to the next that the update of that step does not explain."
source = "arithmetic: a bit of the exponent that turns over makes factors of 2, 4, 16, 256 and more"
[params.gradient]
value = 1e4
unit = "times"
doc = "Growth of one weight's gradient above its last thirty steps while all others stay."
source = "arithmetic: a bit of the exponent that turns over makes factors of 256, 65536 and more"
[params.product]
value = 30.0
unit = "times"
doc = "The same, where both factors of this gradient stay below twice their size. The factors are the input of the layer and the gradient of its output. They are judged by the layer's output and its gradient."
source = "arithmetic: two factors that at most double have a product that grows fourfold at most"
[params.noise]
value = 1e-6
doc = "Share of the whole gradient below which one was rounding alone: a bias before a batch norm has none."
source = "arithmetic: about eight times the resolution of float32, 2^-23"
[params.input]
value = 30.0
unit = "times"
doc = "Growth of a batch above its last thirty, from which it may explain a gradient."
source = "own history"
[params.sane]
value = 1e12
doc = "Inputs and weights below this size cannot make a linear layer overflow float32 or bfloat16."
source = "arithmetic: 1e12 squared times a million terms is 1e30, below 3.4e38"
[params.past]
value = 30
unit = "steps"
doc = "Steps before, with which a tensor is compared."
source = "convention: of this project, the window of the view optimizer_series"
[params.ever]
value = 3
unit = "times"
doc = "Size of a weight over all of those steps."
source = "own history"
[params.filled_from]
value = 4
unit = "elements"
doc = "Elements of a tensor that can be told to hold one constant."
source = "convention: of this project, fewer are alike by chance"
[params.filled]
value = 0.5
doc = "Mean over largest element, from which a tensor holds one constant."
source = "convention: of this project, more than half"
[params.before]
value = 10
unit = "steps"
doc = "Steps before in which an update may have thrown the weights about."
source = "convention: of this project, its harm shows within a few steps"
[params.thrown]
value = 0.3
doc = "Update over weights that throws them about."
source = "convention: of this project, an update of that size replaces weights rather than tunes them"
[params.explained]
value = 20
unit = "times"
doc = "Size of a weight over its update that the update does not explain."
source = "convention: of this project, an order of magnitude, and twice that"
[params.looks]
value = 12
unit = "looks"
doc = "Looks at a gradient before, where two factors are compared."
source = "convention: of this project, the window of the view optimizer_series"
[params.least]
value = 1e-3
unit = "of the norm"
doc = "Share of the whole gradient that such a tensor must have had."
source = "convention: of this project, less is not worth a word"
[params.again]
value = 0.2
unit = "of its size"
doc = "Size from which it has come again."
source = "convention: of this project, a fifth is far above what was usual"
[params.steady]
value = 4
unit = "times"
doc = "Growth of the sum of squares of a factor that has at most doubled."
source = "arithmetic: two squared"
[params.band]
value = 5
unit = "robust sigmas"
doc = "Band of the loss that must hold at that step."
source = "convention: of this project, half of what a loss spike needs"
[params.floor]
value = 0.2
unit = "of the loss"
doc = "Least width of that band."
source = "convention: of this project, a fifth of its level"
[params.earlier]
value = 4
unit = "looks"
doc = "Looks at a gradient before."
source = "convention: of this project, fewer do not show what is usual"
[params.goes_on]
value = 0.1
unit = "of its size"
doc = "Size of the next gradient from which it goes on."
source = "convention: of this project, an order of magnitude"
[params.moved]
value = 10
unit = "times"
doc = "Growth of other gradients in that step, from which it is none alone."
source = "convention: of this project, an order of magnitude"
[params.parameters]
value = 3
unit = "parameters"
doc = "Parameters that a model must have for one to be alone."
source = "convention: of this project, of two, one may well be alone"
[needs]
tables = ["tensor_stats", "steps"]
kinds = ["parameter"]
steps = 5
[doc]
what = "A weight holds NaN or infinity before the update of a step. Loss and gradients of the step before were finite. Or one weight grows a hundredfold between two steps although its update was small. Or a linear layer or convolution puts out non-finite numbers although its input was finite and small. So were its weights after the step before. Or the gradient of one weight alone grows ten thousandfold. Or that of one linear layer or convolution alone grows thirtyfold for one step. Its output and the gradient of its output are as large as ever. Or a module of torch puts out a hundred thousand times as much in one step. It is one that makes nothing large of ordinary numbers. Nothing before it in the forward pass has grown."
why = "Hardware (a bit flipped in memory, a faulty core) changes one tensor and nothing else. So does code that writes where it should not. Training rarely stops, it gets worse."
not_this = "Weights that were loaded, one constant written into a whole tensor, large updates. Jumps in several tensors at once. Gradients that are large from there on or where modules change between train and eval mode, large inputs. Float16 overflow, what code between modules computes (unexplained-jump)."
source = "Arithmetic: W(t) = W(t-1) + update; a linear map of finite numbers of this size is finite."
*/
-- shared
WITH loaded AS (
    SELECT DISTINCT rank, step FROM checkpoints WHERE action = 'weights'
), extent AS (
    SELECT s.rank, s.tensor_id, t.kind
    FROM tensor_stats s
    JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id
    WHERE t.kind IN ('parameter', 'gradient') GROUP BY ALL
    HAVING max(greatest(abs(s.min), abs(s.max))) > CASE t.kind
        WHEN 'parameter' THEN $weight
        ELSE $product
        END * min(nullif(greatest(abs(s.min), abs(s.max)), 0))
), series AS (
    SELECT s.rank, s.step, s.microbatch, s.seq, s.phase, s.tensor_id, e.kind,
        greatest(abs(s.min), abs(s.max)) AS size, abs(s.sum) / s.numel AS mean_size, s.numel,
        lag(s.step) OVER w AS last_step,
        max(greatest(abs(s.min), abs(s.max))) OVER (w ROWS BETWEEN $past PRECEDING AND 1 PRECEDING) AS peak,
            count(s.max) OVER (w ROWS BETWEEN $past PRECEDING AND 1 PRECEDING) AS n,
        max(greatest(abs(s.min),
            abs(s.max))) OVER (w ROWS BETWEEN 1 PRECEDING AND 1 PRECEDING) AS size_before,
            lead(greatest(abs(s.min), abs(s.max))) OVER w AS size_next
    FROM tensor_stats s JOIN extent e ON e.rank = s.rank AND e.tensor_id = s.tensor_id
    WHERE s.nan_count + s.inf_count = 0
    WINDOW w AS (PARTITION BY s.rank, s.tensor_id ORDER BY s.step, s.seq)
)
-- shared: no_product
WITH risen AS (
    -- a gradient of a linear map that is large in one step only; a norm of it is at most the product of the
    -- norms of input and output gradient
    SELECT g.rank, g.tensor_id, g.step, p.module_id
    FROM series g
    JOIN parameters p ON p.rank = g.rank AND p.gradient_id = g.tensor_id
    JOIN optimizer_series o ON o.rank = g.rank AND o.step = g.step AND o.microbatches = 1
    WHERE g.kind = 'gradient'
      AND g.n >= $looks
      AND g.size > $product * g.peak
      AND g.peak > $least * o.norm_median
      AND regexp_matches(coalesce(p.class_name, ''), '^(Linear|Conv[123]d|ConvTranspose[123]d)$')
      -- what comes again has a reason that comes again
      AND 1 = (SELECT count(*)
          FROM series e
          WHERE e.rank = g.rank
            AND e.tensor_id = g.tensor_id
            AND e.step > g.step - $past
            AND e.size > $again * g.size)
), factors AS (
    SELECT r.rank, r.tensor_id, r.step, t.kind, t.tensor_id AS factor_id,
        max(s.sum_sq) FILTER (s.step = r.step) <= $steady * max(s.sum_sq) FILTER (s.step < r.step) AS steady
    FROM risen r
    JOIN tensors t ON t.rank = r.rank
        AND t.module_id = r.module_id
        AND t.kind IN ('activation', 'activation_gradient')
        AND t.tensor_name LIKE '%:output0%'
    JOIN tensor_stats s ON s.rank = t.rank
        AND s.tensor_id = t.tensor_id
        AND s.step BETWEEN r.step - $past AND r.step
        AND s.phase IN ('forward', 'backward')
    GROUP BY ALL
)
SELECT rank, tensor_id, step
FROM factors
GROUP BY ALL
HAVING bool_and(coalesce(steady, false)) AND count(DISTINCT kind) = 2
-- detector: weight_leaps
WITH jumps AS (
    SELECT w.*, p.tensor, p.module, p.update_id FROM series w
    JOIN parameters p ON p.rank = w.rank AND p.tensor_id = w.tensor_id
    WHERE w.kind = 'parameter'
      AND w.n >= 2
      AND w.size > $weight * w.size_before
      AND w.size > $ever * w.peak
      AND w.last_step >= w.step - 1
      AND p.dtype <> 'float16'
      -- one constant added to or filled into the whole tensor is the doing of code, and what follows from it
      -- has names of its own
      AND NOT coalesce(w.numel >= $filled_from AND w.mean_size > $filled * w.size, false)
      AND NOT EXISTS (SELECT 1 FROM loaded l WHERE l.rank = w.rank AND l.step IN (w.step, w.step - 1))
      AND NOT EXISTS (SELECT 1
          FROM optimizer_series e
          WHERE e.rank = w.rank
            AND e.step BETWEEN w.step - $before AND w.step - 1
            AND e.update_ratio > $thrown)
), updates AS (
    SELECT u.rank, u.tensor_id, u.step, max(greatest(abs(u.min), abs(u.max))) AS update_size
    FROM tensor_stats u
    JOIN (SELECT DISTINCT rank, update_id, step FROM jumps) j ON j.rank = u.rank
        AND j.update_id = u.tensor_id
        AND j.step = u.step
    GROUP BY ALL
), weights AS (
    SELECT j.*, u.update_size
    FROM jumps j
    JOIN updates u ON u.rank = j.rank AND u.tensor_id = j.update_id AND u.step = j.step
    WHERE $explained * u.update_size < j.size
)
SELECT rank, step, microbatch, seq, 'optimizer' AS phase, module, tensor, size AS value, 0 AS order_,
    size_before, update_size, 'weight_leapt' AS said_
FROM weights QUALIFY count(*) OVER (PARTITION BY rank, step) = 1
-- detector: gradient_leaps
WITH gradients AS (
    SELECT g.*, p.tensor, p.module FROM series g
    JOIN parameters p ON p.rank = g.rank AND p.gradient_id = g.tensor_id
    JOIN optimizer_series o ON o.rank = g.rank
        AND o.step = g.step
        AND o.loss < o.loss_median + $band * greatest(o.loss_sigma, $floor * abs(o.loss_median))
    WHERE g.kind = 'gradient'
      AND (g.n >= $earlier
          AND g.size > $gradient * g.peak
          OR (g.rank, g.tensor_id, g.step) IN (SELECT (rank, tensor_id, step) FROM no_product))
      AND g.peak > $noise * coalesce(o.norm_median, 0)
      AND coalesce(p.class_name, '') NOT LIKE 'Embedding%'
      -- where updates had been as large as the weights themselves, gradients of any size follow
      AND NOT EXISTS (SELECT 1
          FROM optimizer_series e
          WHERE e.rank = g.rank
            AND e.step BETWEEN g.step - $before AND g.step - 1
            AND e.update_ratio > $thrown)
      -- a batch norm that goes into eval mode lets through what it had cancelled, from there on
      AND NOT coalesce(g.size_next > $goes_on * g.size, false)
        AND NOT EXISTS (FROM module_modes m WHERE m.rank = g.rank AND m.grad AND m.step = g.step)
), given AS (
    -- a batch on another scale explains the gradients of the layer that it enters
    SELECT s.rank, s.step,
        greatest(abs(s.min),
            abs(s.max)) > $input * max(greatest(abs(s.min), abs(s.max))) OVER (PARTITION BY s.rank,
            s.tensor_id
            ORDER BY s.step, s.seq ROWS BETWEEN $past PRECEDING AND 1 PRECEDING) AS outlying
    FROM tensor_stats s
    JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id AND t.kind IN ('input', 'target')
    WHERE EXISTS (SELECT 1 FROM gradients)
), others AS (
    -- how many gradients of the step left their own past: one alone is no doing of the backward pass
    SELECT g.rank, g.step, count(*) FILTER (s.size > $moved * s.peak) AS moved,
        (SELECT count(*) FROM parameters q WHERE q.rank = g.rank) AS all_
    FROM (SELECT DISTINCT rank, step FROM gradients) g
    JOIN series s ON s.rank = g.rank AND s.step = g.step AND s.kind = 'gradient'
    GROUP BY g.rank, g.step
)
SELECT g.rank, g.step, g.microbatch, g.seq, 'backward' AS phase, g.module, g.tensor, g.size AS value,
    1 AS order_, g.peak, 'gradient_leapt' AS said_
FROM gradients g
JOIN others o ON o.rank = g.rank AND o.step = g.step
WHERE o.moved = 1 AND o.all_ >= $parameters
  AND NOT EXISTS (SELECT 1 FROM given i WHERE i.rank = g.rank AND i.step = g.step AND i.outlying)
-- detector: output_impossible
WITH origin AS (
    SELECT o.rank, o.step, o.microbatch, o.seq, o.phase, o.module, o.module_id, o.tensor, o.class_name,
        o.nan_count, o.inf_count
    FROM nonfinite_origin o
    WHERE o.kind = 'activation'
      AND o.dtype <> 'float16'
      AND regexp_matches(coalesce(o.class_name, ''), '^(Linear|Conv[123]d|ConvTranspose[123]d|Embedding)$')
      AND o.tensor LIKE '%:output0' AND o.step > 0
), impossible AS (
    SELECT o.* FROM origin o
    WHERE NOT EXISTS (SELECT 1 FROM loaded l WHERE l.rank = o.rank AND l.step IN (o.step, o.step - 1))
      AND EXISTS (SELECT 1
          FROM stats w
          WHERE w.rank = o.rank
            AND w.module_id = o.module_id
            AND w.kind = 'parameter'
            AND w.step = o.step - 1)
      AND NOT EXISTS (SELECT 1
          FROM stats w
          WHERE w.rank = o.rank AND w.module_id = o.module_id AND w.kind = 'parameter' AND w.step = o.step - 1
          AND (w.nonfinite_count > 0 OR w.abs_max > $sane))
      AND NOT EXISTS (SELECT 1
          FROM tensor_stats e
          JOIN tensors t ON t.rank = e.rank AND t.tensor_id = e.tensor_id
          WHERE e.rank = o.rank
            AND e.step = o.step
            AND e.seq < o.seq
            AND t.kind IN ('input', 'activation', 'buffer')
            AND (e.nan_count + e.inf_count > 0 OR greatest(abs(e.min), abs(e.max)) > $sane))
)
SELECT rank, step, microbatch, seq, 'forward' AS phase, module, tensor, nan_count + inf_count AS value,
    2 AS order_, class_name, nan_count, inf_count, 'output_lost' AS said_
FROM impossible
-- detector: weight_written
WITH written AS (
    -- not finite before the update of the first lost step, and nothing that the step before computed was
    -- lost: written in between
    SELECT s.rank, s.step, s.microbatch, s.seq, s.module, s.tensor, s.nonfinite_count, s.numel
    FROM stats s JOIN nonfinite_origin o ON o.rank = s.rank AND o.step = s.step AND o.kind <> 'input'
    JOIN steps b ON b.rank = s.rank
        AND b.step = s.step - 1
        AND b.completed
        AND isfinite(b.loss)
        AND isfinite(coalesce(b.grad_norm, b.clip_norm))
    WHERE s.kind = 'parameter' AND s.phase = 'loss' AND s.nonfinite_count > 0 AND s.dtype <> 'float16'
      AND NOT EXISTS (SELECT 1
          FROM stats e
          WHERE e.rank = s.rank
            AND e.nonfinite_count > 0
            AND e.kind IN ('parameter', 'update', 'gradient', 'optimizer_state')
          -- or by an optimizer that has stepped in this step before another's backward
          AND (e.step = s.step - 1 OR e.step = s.step AND e.seq < s.seq))
      AND NOT EXISTS (SELECT 1
          FROM param_groups g
          WHERE g.rank = s.rank AND g.step = s.step - 1 AND (NOT isfinite(g.lr) OR g.eps = 0))
      AND NOT EXISTS (SELECT 1 FROM loaded l WHERE l.rank = s.rank AND l.step IN (s.step, s.step - 1))
)
SELECT rank, step, microbatch, seq, 'forward' AS phase, module, tensor, nonfinite_count AS value,
    -1 AS order_, nonfinite_count, numel, 'weight_overwritten' AS said_
FROM written
-- detector: activation_leaps
SELECT rank, step, microbatch, seq, 'forward' AS phase, module, tensor, top AS value, 3 AS order_,
    class_name, usual, 'output_leapt' AS said_
-- what code between modules computes may be of any size; these make nothing large of ordinary numbers
FROM unexplained_leaps WHERE bounded
-- together
ORDER BY step, rank, order_, seq
