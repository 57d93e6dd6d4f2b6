/*
code = "DA013"
name = "tiny-last-batch"
severity = "error"
phase = "data"
signal = "batch_size"
message = "The last batch of an epoch has {value} samples instead of {usual}, and the gradient norm there is {norm}, {times} times the usual, where so few samples alone make it at most {chance} times as large; it is {least_} times or more in {spikes} of {epochs} such batches."
fix = "Use drop_last=True, or weight the loss of a short batch by its size."
explains = ["loss-spike", "exploding-gradients"]
[params.share]
value = 0.34
doc = "Size of the short batch over the usual one."
[params.beyond]
value = 1.5
unit = "times"
doc = "Its gradient norm over what sampling alone makes: the noise of a mean over n samples falls with the root of n, so the norm of a short batch is up to sqrt(usual / size) times the median; half as much again for scatter."
[params.least]
value = 2
unit = "batches"
doc = "Short batches whose norm spikes."
[params.most]
value = 0.5
doc = "Share of the short batches whose norm spikes: over few samples chance alone makes some ordinary, and of full batches one in twenty is as large."
[needs]
tables = ["batches", "steps"]
columns = ["batches.batch_size", "steps.grad_norm"]
steps = 8
[doc]
what = "A batch size that falls to a third or less at regular places, with a spike of the gradient norm at least every other time, beyond what the full batches reach and beyond the noise of a mean over few samples."
why = "A mean over few samples is noisy but weighs as much as a full batch."
not_this = "A shorter last batch without a spike, or with a norm that is larger only as a mean over fewer samples is noisier, batch sizes that vary anyway."
source = "Arithmetic: the standard error of a mean. The spike is measured against the run's own median and the largest full batches."
*/
WITH sizes AS (
    SELECT rank, step, max(batch_size) AS size FROM batches WHERE role IN ('input', 'field') AND phase = 'data' AND batch_size IS NOT NULL GROUP BY rank, step
), usual AS (
    SELECT rank, median(size) AS usual, quantile_cont(size, 0.25) AS low FROM sizes GROUP BY rank
), short AS (
    SELECT z.rank, z.step, z.size AS value, u.usual, coalesce(s.clip_norm, s.grad_norm) AS norm
    FROM sizes z JOIN usual u ON u.rank = z.rank JOIN (SELECT rank, step, max(clip_norm) AS clip_norm, max(grad_norm) AS grad_norm FROM steps GROUP BY rank, step) s ON s.rank = z.rank AND s.step = z.step
    WHERE z.size <= $share * u.usual AND u.low = u.usual
), norms AS (
    SELECT s.rank, median(coalesce(s.clip_norm, s.grad_norm)) AS middle,
        quantile_cont(coalesce(s.clip_norm, s.grad_norm), 0.95) FILTER (s.step NOT IN (SELECT h.step FROM short h WHERE h.rank = s.rank)) AS high
    FROM steps s WHERE isfinite(coalesce(s.clip_norm, s.grad_norm)) GROUP BY s.rank
), judged AS (
    SELECT s.*, s.norm / nullif(n.middle, 0) AS times, sqrt(s.usual / s.value) AS chance, s.norm >= $beyond * sqrt(s.usual / s.value) * n.middle AND s.norm > n.high AS spike
    FROM short s JOIN norms n ON n.rank = s.rank
), counted AS (
    SELECT *, count(*) OVER (PARTITION BY rank) AS epochs, count(CASE WHEN spike THEN 1 END) OVER (PARTITION BY rank) AS spikes FROM judged
)
SELECT rank, step, value, usual::BIGINT AS usual, norm, times, epochs, spikes, chance, $beyond * chance AS least_ FROM counted
WHERE spike AND spikes >= $least AND spikes >= $most * epochs ORDER BY step, rank
