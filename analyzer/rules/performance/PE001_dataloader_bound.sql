/*
code = "PE001"
name = "dataloader-bound"
severity = "error"
phase = "data"
signal = "data_wait_ns"
message = "From step {step} on the training waits for its DataLoader during {percent} % of the time ({wait_ms} of {step_ms} ms a step, {workers} workers): the data comes too slowly."
fix = "Raise num_workers and prefetch_factor, cache what is decoded or computed anew in each epoch, and use pin_memory for a GPU."
explains = ["throughput-drift", "step-time-outlier", "periodic-stall"]
[params.share]
value = 0.5
doc = "Share of waiting that makes it an error."
[params.advice]
value = 0.3
doc = "Share from which it is advice."
[params.least_ns]
value = 1e7
unit = "ns"
doc = "Waiting below this is not worth a word."
[params.steps]
value = 20
unit = "steps"
doc = "Steps to judge by, the first three left out: workers start, caches fill."
[needs]
tables = ["steps"]
columns = ["steps.data_wait_ns", "steps.step_ns"]
steps = 20
[doc]
what = "Waiting for the loader takes most of the time of most steps."
why = "The model stands still while it waits."
not_this = "The first batches of an epoch, waits of a few milliseconds, runs without a DataLoader."
source = "Share of the step; 5 to 30 % are thresholds of other tools, which count short waits too."
*/
WITH counted AS (
    SELECT rank, step, step_ns, coalesce(data_wait_ns, 0) AS wait_ns, row_number() OVER (PARTITION BY rank ORDER BY step) AS n
    FROM step_series WHERE step_ns > 0 AND data_wait_ns IS NOT NULL
), marked AS (
    SELECT *, wait_ns > $advice * step_ns AND wait_ns > $least_ns AS waits,
        count(*) OVER rest AS left_, count(CASE WHEN wait_ns > $advice * step_ns AND wait_ns > $least_ns THEN 1 END) OVER rest AS waiting
    FROM counted WHERE n > 3
    WINDOW rest AS (PARTITION BY rank ORDER BY step ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)
), begun AS (
    -- from the first steps on it is the run's own pace
    SELECT rank, min(step) AS first_, CASE WHEN min(n) <= 5 THEN 0 ELSE min(step) END AS step FROM marked
    WHERE waits AND left_ >= $steps AND waiting >= 0.7 * left_ GROUP BY rank
), judged AS (
    SELECT b.rank, b.step, median(m.wait_ns) AS wait, median(m.step_ns) AS whole, sum(m.wait_ns) / sum(m.step_ns) AS share
    FROM begun b JOIN marked m ON m.rank = b.rank AND m.step >= b.first_ GROUP BY b.rank, b.step
)
SELECT j.rank, j.step, j.wait AS value, round(100 * j.share)::INT AS percent, round(j.wait / 1e6, 1) AS wait_ms, round(j.whole / 1e6, 1) AS step_ms,
    coalesce((SELECT max(workers) FROM batches b WHERE b.rank = j.rank), 0) AS workers,
    CASE WHEN j.share <= $share THEN 'warning' END AS severity
FROM judged j WHERE j.share > $advice ORDER BY j.step, j.rank
