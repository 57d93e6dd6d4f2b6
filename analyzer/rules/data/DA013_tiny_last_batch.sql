/*
code = "DA013"
name = "tiny-last-batch"
severity = "error"
phase = "data"
signal = "batch_size"
message = "The last batch of an epoch has {value} samples instead of {usual}{effect_}."
fix = "Use drop_last=True in the DataLoader. Or change the batch size, or weight the loss of a short batch by its size."
explains = ["loss-spike", "exploding-gradients", "shape-or-dtype-error", "python-exception", "nonfinite-tensor", "unexplained-nonfinite", "divergence"]
[say.effect_]
norm_spikes = ", and the gradient norm there is {norm:.3g}, {times:.3g} times the usual, where so few samples alone make it at most {chance:.3g} times as large; it is {least_times:.3g} times or more in {spikes} of {epochs} such batches"
batch_norm_refused = ", and batch norm cannot normalise one value a channel: the {samples} samples of the loader are {full} batches of {usual} and one sample (drop_last is off); the exception came at batch {loader_batches} of {loader_batches}"
loss_lost = ", the first of one sample, and with it the loss is NaN although the model gives out finite numbers: a standard deviation of one value is 0 / 0"
[params.share]
value = 0.34
doc = "Size of the short batch over the usual one."
source = "arithmetic: a third: the root of its inverse is 1.7, so that noise alone raises the norm by 70 %"
[params.beyond]
value = 1.5
unit = "times"
doc = "Its gradient norm over what sampling alone makes. The noise of a mean over n samples falls with the root of n. So the norm of a short batch is up to sqrt(usual / size) times the median. Half as much again is for scatter."
source = "arithmetic: sqrt(usual / size) is what sampling makes, and half as much again is scatter"
[params.least]
value = 2
unit = "batches"
doc = "Short batches whose norm spikes."
source = "convention: of this project, one spike is an accident"
[params.most]
value = 0.5
doc = "Share of the short batches whose norm spikes: over few samples chance alone makes some ordinary, and of full batches one in twenty is as large."
source = "convention: of this project, more than half is the rule rather than the exception"
[params.high]
value = 0.95
unit = "quantile"
doc = "The full batches that a spike must exceed."
source = "convention: 95th percentile"
[params.steps]
value = 8
unit = "steps"
doc = "Steps with a gradient norm, from which a usual one is known."
source = "convention: of this project, fewer norms have no median to speak of"
[needs]
tables = ["batches", "steps"]
columns = ["batches.batch_size", "steps.grad_norm"]
[doc]
what = "The batch size falls to a third or less at regular places. At least every other time the gradient norm has a spike. The spike is beyond what full batches reach and beyond the noise of a mean over few samples. Or batch norm refuses the one sample that is left for the last batch of a loader. Or numbers are lost for the first time in the first batch of one sample, behind all modules."
why = "A mean over few samples is noisy but weighs as much as a full batch. One sample has no variance."
not_this = "Batches of one sample by choice. A shorter last batch without a spike. One whose norm is larger only as a mean over fewer samples is noisier. Batch sizes that vary anyway."
source = "Arithmetic: the standard error of a mean. The spike is measured against the run's own median and the largest full batches."
*/
-- shared
WITH sizes AS (
    SELECT rank, step, max(batch_size) AS size
    FROM batches
    WHERE role IN ('input', 'field') AND phase = 'data' AND batch_size IS NOT NULL
    GROUP BY rank, step
), usual AS (
    SELECT rank, median(size) AS usual, quantile_cont(size, 0.25) AS low FROM sizes GROUP BY rank
)
-- detector: spikes
WITH measured AS (
    SELECT rank, step, coalesce(max(clip_norm), max(grad_norm)) AS norm FROM steps GROUP BY rank, step
), short AS (
    SELECT z.rank, z.step, z.size AS value, u.usual, m.norm
    FROM sizes z
    JOIN usual u ON u.rank = z.rank
    JOIN measured m ON m.rank = z.rank AND m.step = z.step
    WHERE z.size <= $share * u.usual AND u.low = u.usual
), norms AS (
    SELECT m.rank, median(m.norm) AS middle, count(*) AS steps,
        quantile_cont(m.norm, $high) FILTER (m.step NOT IN (SELECT h.step
            FROM short h
            WHERE h.rank = m.rank)) AS high
    FROM measured m WHERE isfinite(m.norm) GROUP BY m.rank
), judged AS (
    SELECT s.*, s.norm / nullif(n.middle, 0) AS times, sqrt(s.usual / s.value) AS chance,
        s.norm >= $beyond * sqrt(s.usual / s.value) * n.middle AND s.norm > n.high AS spike
    FROM short s JOIN norms n ON n.rank = s.rank
    WHERE n.steps >= $steps
), counted AS (
    SELECT *, count(*) OVER (PARTITION BY rank) AS epochs,
        count(CASE WHEN spike THEN 1 END) OVER (PARTITION BY rank) AS spikes
    FROM judged
)
SELECT rank, step, value, usual::BIGINT AS usual, norm, times, epochs, spikes, chance, 'error' AS severity,
    'optimizer' AS phase, NULL::VARCHAR AS module, $beyond * chance AS least_times, 'norm_spikes' AS effect_
FROM counted
WHERE spike AND spikes >= $least AND spikes >= $most * epochs
-- detector: refused
-- batch norm has raised, in the last place of a loader whose batches fill up but for one sample
SELECT coalesce(e.rank, 0) AS rank, e.step, 1 AS value, u.usual::BIGINT AS usual, 'fatal' AS severity,
    'forward' AS phase, e.module, b.loader_batches, b.loader_batches - 1 AS full,
    (b.loader_batches - 1) * u.usual::BIGINT + 1 AS samples, 'batch_norm_refused' AS effect_
FROM exits e
JOIN known_exceptions k ON k.known = 'batchnorm-one' AND regexp_matches(e.exception_message, k.pattern)
JOIN usual u ON u.rank = coalesce(e.rank, 0) AND u.usual > 1 AND u.low = u.usual
JOIN batches b ON b.rank = u.rank AND b.phase = 'data' AND b.loader_batches > 1 AND b.step <= e.step
-- unwatched steps leave no batch, but each takes one: the place follows from the step
WHERE b.batch_index + (e.step - b.step) = b.loader_batches - 1
  AND regexp_matches(e.exception_message, 'Size\(\[1\W')
QUALIFY row_number() OVER (PARTITION BY e.rank ORDER BY b.step DESC) = 1
-- detector: lost
-- numbers are lost for the first time in the first batch of one sample, while all that the modules gave out
-- is finite: a standard deviation of one value is 0 / 0
WITH all_sizes AS (
    FROM sizes
    UNION ALL
    -- of a step that goes unwatched only the loss is looked at, with its targets
    SELECT rank, step, max(batch_size) AS size
    FROM batches
    WHERE role = 'target' AND phase = 'loss' AND (rank, step) NOT IN (SELECT (rank, step) FROM sizes)
    GROUP BY rank, step
)
SELECT o.rank, o.step, 1 AS value, u.usual::BIGINT AS usual, 'error' AS severity, 'loss' AS phase,
    NULL::VARCHAR AS module, 'loss_lost' AS effect_
FROM nonfinite_origin o
JOIN usual u ON u.rank = o.rank AND u.usual > 1
JOIN (SELECT rank, min(step) AS step FROM all_sizes WHERE size = 1 GROUP BY rank) f
    ON f.rank = o.rank AND f.step = o.step
WHERE o.kind = 'loss' AND o.nan_count > 0
  AND EXISTS (FROM sizes s WHERE s.rank = o.rank AND s.step < o.step)
  -- an input that is not finite, or a divisor of zero, has a name of its own
  AND NOT EXISTS (FROM operators p
      WHERE p.rank = o.rank AND p.step = o.step AND p.trigger = 'nonfinite'
        AND p.op LIKE 'Div%' AND p.saved = 'other' AND p.zero_count > 0)
QUALIFY row_number() OVER (PARTITION BY o.rank ORDER BY o.seq) = 1
-- together
ORDER BY step, rank
