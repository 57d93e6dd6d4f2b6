/*
code = "PE003"
name = "host-sync-per-step"
severity = "error"
phase = "step"
signal = "host_reads"
message = "From step {step} on the script reads {value} numbers a step one by one out of tensors at {place} ({code_}). The loops that read take {loop_ms} of {step_ms} ms a step ({percent} %). As one operation on the whole tensor a step would be up to {loop_ms} ms shorter."
fix = "Compute on whole tensors and read the result once: sum, mean or compare first, then .item(); .tolist() for many numbers. Log every n-th step. On a GPU each read also waits for everything before it."
seeks = ["host_reads: loop_ns > 0"]
explains = ["throughput-drift", "step-time-outlier"]
[say.code_]
known = "{code}"
unknown = "no source"
[params.share]
value = 0.5
doc = "Share of the step from which it is an error."
source = "convention: of this project, more than half of the step"
[params.advice]
value = 0.1
doc = "Share from which it is advice."
source = "convention: of this project, a tenth: less is not worth a change"
[params.error_ns]
value = 1e7
unit = "ns"
doc = "Loops below this are advice at most."
source = "convention: of this project, 10 ms: shorter loops cost little on any machine"
[params.least_ns]
value = 4e5
unit = "ns"
doc = "Loops below this are not worth a word."
source = "convention: of this project, 0.4 ms: about twenty reads from a device"
[params.steps]
value = 6
unit = "steps"
doc = "Counted steps to judge by."
source = "convention: of this project, fewer are warm-up"
[params.whole]
value = 1.1
doc = "Share of a step from which the time of its loops cannot be its own. Several of them may end in one step."
source = "convention: of this project, a share is at most 1; a tenth more is the clock"
[params.warm]
value = 3
unit = "steps"
doc = "Steps up to which it began with the run."
source = "convention: of this project, the first steps"
[params.most]
value = 0.7
unit = "of the steps"
doc = "Share of the steps from there on that must be slow."
source = "convention: of this project, two of three and some more"
[needs]
tables = ["steps"]
columns = ["steps.host_reads", "steps.step_ns"]
steps = 10
[doc]
what = "In most steps some line reads eight numbers or more out of tensors. The loops that read them take a large share of the step."
why = "A read costs microseconds of Python for what the processor adds up in nanoseconds. On a device it also stops the queue."
not_this = "A loss and some metrics read once a step. Loops with a model call between the reads, reads in some steps only (an evaluation)."
source = "The run's own time: from the first read of a loop to its last."
*/
WITH counted AS (
    SELECT rank, step, sum(step_ns - coalesce(recorder_ns, 0)) AS step_ns
    FROM steps
    WHERE step_ns > coalesce(recorder_ns, 0) AND host_reads IS NOT NULL
    GROUP BY rank, step
), looped AS (
    SELECT rank, step + coalesce(after_step, false)::INT AS counted_in, min(step) AS step,
        sum(loop_ns) AS loop_ns, sum(reads) AS reads, arg_max(place, loop_ns) AS place,
        arg_max(code, loop_ns) AS code
    FROM host_reads GROUP BY rank, counted_in
), marked AS (
    SELECT c.rank, coalesce(l.step, c.step) AS step, c.step_ns, coalesce(l.loop_ns, 0) AS loop_ns, l.reads,
        l.place, l.code,
        coalesce(l.loop_ns > $advice * c.step_ns AND l.loop_ns > $least_ns, false) AS slow,
        row_number() OVER (PARTITION BY c.rank ORDER BY c.step) AS n
    FROM counted c LEFT JOIN looped l ON l.rank = c.rank AND l.counted_in = c.step
), ahead AS (
    SELECT *, count(*) OVER rest AS left_, count(CASE WHEN slow THEN 1 END) OVER rest AS slow_left FROM marked
    WINDOW rest AS (PARTITION BY rank ORDER BY step ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)
), begun AS (
    -- the first counted steps are the first steps: it is the run's own way
    SELECT rank, min(step) AS first_, CASE WHEN min(n) <= $warm THEN 0 ELSE min(step) END AS step FROM ahead
    WHERE slow AND left_ >= $steps AND slow_left >= $most * left_ GROUP BY rank
), judged AS (
    -- the first step compiles, warms up and reads at leisure: medians, not means
    SELECT b.rank, b.step, median(m.loop_ns) AS loop_ns, median(m.step_ns) AS step_ns,
        median(m.loop_ns / m.step_ns) AS share,
        median(m.reads) AS reads, mode(m.place) AS place, mode(m.code) AS code
    FROM begun b JOIN marked m ON m.rank = b.rank AND m.step >= b.first_ GROUP BY b.rank, b.step
)
SELECT rank, step, reads::BIGINT AS value, place, code,
    CASE WHEN code IS NULL THEN 'unknown' ELSE 'known' END AS code_,
    in_ms(least(loop_ns, step_ns)) AS loop_ms,
    in_ms(step_ns) AS step_ms, percent_of(least(share, 1)) AS percent,
    CASE WHEN share <= $share OR loop_ns <= $error_ns THEN 'warning' END AS severity
FROM judged WHERE share > $advice AND share <= $whole AND loop_ns > $least_ns ORDER BY step, rank
