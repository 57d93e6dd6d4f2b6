/*
code = "PE001"
name = "dataloader-bound"
severity = "error"
phase = "data"
signal = "data_wait_ns"
message = "From step {step} on the training waits for {what_} during {percent} % of the time ({wait_ms} of {step_ms} ms a step). The data comes too slowly. Without the wait a step would be up to {wait_ms} ms shorter."
fix = "Raise num_workers and prefetch_factor, cache what is decoded or computed again in each epoch, and use pin_memory for a GPU."
seeks = [
    """steps: step >= $warm AND (data_wait_ns > 0 AND data_wait_ns >= $advice * coalesce(step_ns, 0) \
        OR head_ns > 2 * $least_ns AND head_ns > $half * step_ns)""",
]
explains = ["throughput-drift", "step-time-outlier", "periodic-stall"]
[say.what_]
loader = "its DataLoader ({workers} workers)"
script_before_the_forward = "what the script does before the forward, which had been quick until then"
[params.share]
value = 0.5
doc = "Share of waiting that makes it an error."
source = "convention: of this project, more than half of the time"
[params.advice]
value = 0.3
doc = "Share from which it is advice."
source = "convention: 5 to 30 % are thresholds of other tools, which count short waits too"
[params.least_ns]
value = 1e7
unit = "ns"
doc = "Waiting below this is not worth a word."
source = "convention: of this project, 10 ms: the scheduler of an operating system hands out slices of some milliseconds"
[params.leap]
value = 5.0
unit = "times"
doc = "Growth of the time before the forward from ten steps to the next ten, without a DataLoader."
source = "own history"
[params.steps]
value = 20
unit = "steps"
doc = "Steps to judge by, the first three left out: workers start, caches fill."
source = "convention: of this project, fewer are warm-up"
[params.warm]
value = 3
unit = "steps"
doc = "First steps, which start workers and fill caches."
source = "convention: of this project, they take longer in any run"
[params.start]
value = 5
unit = "steps"
doc = "Steps up to which waiting began with the run."
source = "convention: of this project, the first steps that count"
[params.most]
value = 0.7
unit = "of the steps"
doc = "Share of the steps from there on that must wait."
source = "convention: of this project, two of three and some more"
[params.half]
value = 0.5
unit = "of the step"
doc = "What most of a step is."
source = "arithmetic: a majority is more than a half"
[params.before]
value = 10
unit = "steps"
doc = "Steps before, from which it is told what is usual."
source = "convention: of this project, as many as show a pace"
[params.coming]
value = 9
unit = "steps"
doc = "Steps after the first, in which it must last."
source = "arithmetic: with it as many as before"
[params.history]
value = 8
unit = "steps"
doc = "Steps before that there must be."
source = "convention: of this project, fewer do not show a pace"
[params.rest]
value = 0.2
unit = "of the growth"
doc = "Growth of the rest of the step that may come with it."
source = "convention: of this project, a fifth is scatter"
[params.nearly_all]
value = 0.9
unit = "of the steps"
doc = "Share of the steps from there on that must wait, without a DataLoader."
source = "convention: of this project, one of ten may be quick"
[needs]
tables = ["steps"]
columns = ["steps.step_ns"]
steps = 20
[doc]
what = "Waiting for the loader takes most of the time of most steps. Or it does so for as many steps in a row as it has workers. Or there is no DataLoader, and the script's own code before the forward suddenly becomes slow. It takes most of the time from then on."
why = "The model stands still while it waits."
not_this = "The first batch of an epoch, waits of a few milliseconds. Without a DataLoader a loop that was always like that, or became so gradually. Without one a loop that evaluates or saves there, or reads numbers out of tensors one by one (host-sync-per-step)."
source = "Share of the step; 5 to 30 % are thresholds of other tools, which count short waits too."
*/
-- shared
WITH loaders AS (
    SELECT rank, greatest(coalesce(max(workers), 0), 1) AS workers FROM batches GROUP BY rank
), epochs AS (
    SELECT rank, step, max(epoch) AS epoch FROM steps GROUP BY rank, step
), counted AS (
    -- as many workers, as many batches may come at once: one wait then stands for all of them
    SELECT s.rank, s.step, s.step_ns, coalesce(s.data_wait_ns, 0) AS wait_ns,
        coalesce(l.workers, 1) AS workers, row_number() OVER own AS n,
        CASE WHEN e.epoch IS DISTINCT
            FROM lag(e.epoch) OVER own THEN 0 ELSE coalesce(s.data_wait_ns, 0) END AS inner_wait_ns
    FROM step_series s
    LEFT JOIN loaders l ON l.rank = s.rank
    LEFT JOIN epochs e ON e.rank = s.rank AND e.step = s.step
    WHERE s.step_ns > 0 AND s.data_wait_ns IS NOT NULL
    WINDOW own AS (PARTITION BY s.rank ORDER BY s.step)
), evened AS (
    SELECT *, avg(wait_ns) OVER few AS even_wait_ns, avg(step_ns) OVER few AS even_step_ns,
        avg(inner_wait_ns) OVER few AS even_inner_ns
    FROM counted WHERE n > $warm
    WINDOW few AS (PARTITION BY rank ORDER BY step ROWS BETWEEN workers - 1 PRECEDING AND CURRENT ROW)
), asked AS (
    SELECT *, wait_ns > $advice * step_ns
        AND wait_ns > $least_ns
        OR even_inner_ns > $advice * even_step_ns
        AND even_inner_ns > $least_ns AS waits
    FROM evened
), marked AS (
    SELECT *, count(*) OVER rest AS left_, count(CASE WHEN waits THEN 1 END) OVER rest AS waiting FROM asked
    WINDOW rest AS (PARTITION BY rank ORDER BY step ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)
), begun AS (
    -- from the first steps on it is the run's own pace
    SELECT rank, min(step) AS first_, CASE WHEN min(n) <= $start THEN 0 ELSE min(step) END AS step FROM marked
    WHERE waits AND left_ >= $steps AND waiting >= $most * left_ GROUP BY rank
), judged AS (
    SELECT b.rank, b.step, median(m.even_wait_ns) AS wait, median(m.even_step_ns) AS whole,
        sum(m.wait_ns) / sum(m.step_ns) AS share
    FROM begun b JOIN marked m ON m.rank = b.rank AND m.step >= b.first_ GROUP BY b.rank, b.step
)
-- detector: loader_is_slow
SELECT j.rank, j.step, j.wait AS value, percent_of(j.share) AS percent,
    in_ms(j.wait) AS wait_ms, in_ms(j.whole) AS step_ms,
    'loader' AS what_, coalesce((SELECT max(workers) FROM batches b WHERE b.rank = j.rank), 0) AS workers,
    CASE WHEN j.share <= $share THEN 'warning' END AS severity
FROM judged j WHERE j.share > $advice
-- detector: script_makes_batches_slowly
WITH heads AS (
    -- batches that the script makes itself; of several ranks one that comes late is a straggler, whatever
    -- keeps it
    SELECT rank, step, min(head_ns) AS head_ns, sum(step_ns) AS step_ns, sum(step_ns - head_ns) AS rest_ns,
        row_number() OVER (PARTITION BY rank ORDER BY step) AS n
    FROM steps s
    WHERE head_ns IS NOT NULL
      AND coalesce(eval_forwards, 0) = 0
      AND NOT EXISTS (FROM checkpoints c WHERE c.rank = s.rank AND c.step BETWEEN s.step - 1 AND s.step)
      AND NOT EXISTS (FROM batches b WHERE b.rank = s.rank AND b.loader_id IS NOT NULL)
      AND (SELECT count(DISTINCT rank) FROM steps) = 1
    GROUP BY rank, step HAVING count(*) = 1
), read_ahead AS (
    -- numbers that are read out of tensors one by one after the step are no data: host-sync-per-step tells of
    -- them
    SELECT h.rank, h.step, sum(r.loop_ns) / h.head_ns AS share
    FROM heads h
    JOIN host_reads r ON r.rank = h.rank AND r.step = h.step - 1 AND r.after_step
    WHERE h.head_ns > 0 GROUP BY h.rank, h.step, h.head_ns
), leaps AS (
    SELECT *, median(head_ns) OVER before AS head_before, max(head_ns) OVER before AS most_before,
        count(*) OVER before AS rows_before, median(rest_ns) OVER before AS rest_before,
        median(head_ns) OVER after AS head_after, min(head_ns) OVER soon AS least_soon,
            median(rest_ns) OVER after AS rest_after, median(step_ns) OVER after AS whole_after,
            count(*) OVER after AS left_,
        count(CASE WHEN head_ns > $half * step_ns THEN 1 END) OVER after AS waiting,
            sum(head_ns) OVER after / sum(step_ns) OVER after AS share
    FROM heads
    WINDOW before AS (PARTITION BY rank ORDER BY step ROWS BETWEEN $before PRECEDING AND 1 PRECEDING),
        soon AS (PARTITION BY rank ORDER BY step ROWS BETWEEN CURRENT ROW AND $coming FOLLOWING),
        after AS (PARTITION BY rank ORDER BY step ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)
), begun_at_once AS (
    SELECT rank, step, head_after AS wait, whole_after AS whole, share FROM leaps
    WHERE n > $warm
      AND rows_before >= $history
      AND left_ >= $steps
      AND head_ns > 2 * most_before
      AND least_soon > $leap * head_before
      AND head_after > $leap * head_before
      AND head_after > 2 * $least_ns
      AND rest_after - rest_before < $rest * (head_after - head_before)
        AND waiting >= $nearly_all * left_
        AND share > $share
      AND coalesce((SELECT median(r.share)
          FROM read_ahead r
          WHERE r.rank = leaps.rank AND r.step >= leaps.step),
          0) < $half
    QUALIFY row_number() OVER (PARTITION BY rank ORDER BY step) = 1
)
SELECT rank, step, wait AS value, percent_of(share) AS percent, in_ms(wait) AS wait_ms,
    in_ms(whole) AS step_ms, 'script_before_the_forward' AS what_
FROM begun_at_once WHERE rank NOT IN (SELECT rank FROM judged WHERE share > $advice)
-- together
ORDER BY step, rank
