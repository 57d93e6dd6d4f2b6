/*
code = "PE002"
name = "thread-oversubscription"
severity = "warning"
phase = "step"
signal = "threads"
message = "{value} threads compute on {processors} processors{since_}: they wait for each other more than they work. {evidence_}"
fix = "torch.set_num_threads(processors / processes), or OMP_NUM_THREADS in the environment; fewer DataLoader workers, and one thread in each."
explains = ["throughput-drift", "step-time-outlier", "low-device-use", "slow-operator"]
[say.since_]
from_a_step = " from step {step} on"
in_processes = " in {processes} processes"
[say.evidence_]
steps_before_and_after = "Steps took {before_ms:.1f} ms before and {after_ms:.1f} ms after."
too_few_steps = "There are too few steps before it to say what it costs."
all_started = "The process has started them all."
cost_unknown = "What it costs is not known: try fewer."
that_many_want_to_run = "That many want to run at the usual look; torch itself uses {torch_threads}."
[params.factor]
value = 2
unit = "times"
doc = "Threads for each processor up to which it may be meant: two hardware threads of a core."
source = "arithmetic: processors of today have two hardware threads a core"
[params.slower]
value = 2
unit = "times"
doc = "Median step after the change over the one before from which it is an error: the run's own measurement."
source = "own history"
[params.samples]
value = 5
unit = "samples"
doc = "Looks at the process tree, one a second, to judge the threads that want to run."
source = "convention: of this project, fewer may be a burst"
[params.start]
value = 3
unit = "steps"
doc = "First steps, which start workers and fill caches."
source = "convention: of this project, they take longer in any run"
[params.few]
value = 5
unit = "steps"
doc = "Steps before and after that it takes to compare them."
source = "convention: of this project, fewer are a busy machine"
[params.least_ns]
value = 1e7
unit = "ns"
doc = "Growth of a step below which it is advice."
source = "convention: of this project, 10 ms: the scheduler of an operating system hands out slices of some milliseconds"
[needs]
tables = ["ranks", "steps"]
columns = ["ranks.processors", "steps.step_ns"]
steps = 10
[doc]
what = "torch's threads of all processes on a host are more than twice its processors. Or, at most looks, more than twice as many threads as processors want to run."
why = "Threads of one operation meet at its end: each waits for those that have no processor."
not_this = "As many threads as processors, hyper-threads, other programs on the machine. Threads of torch that were never started because every operation is small."
source = "Arithmetic; runnable threads are those of the script's own processes only."
*/
WITH hosts AS (
    SELECT hostname, min(rank) AS rank, sum(threads) AS threads, min(processors) AS processors,
        count(*) AS ranks
    FROM ranks
    WHERE processors > 0
    GROUP BY hostname
), wanting AS (
    SELECT count(*) AS samples, median(runnable) AS runnable, max(threads) AS existing FROM system_samples
    WHERE time_ns BETWEEN (SELECT min(time_ns) FROM steps) AND (SELECT max(time_ns) FROM steps)
      AND runnable IS NOT NULL
), changed AS (
    SELECT e.rank, e.step, json_extract(e.detail, '$.threads')::INT AS threads,
        json_extract(e.detail, '$.before')::INT AS before_,
        coalesce(lead(e.step) OVER (PARTITION BY e.rank ORDER BY e.time_ns), 999999999999) AS until_
    FROM events e WHERE e.event = 'threads-changed'
), paces AS (
    SELECT c.rank, c.step, c.threads, r.processors,
        median(s.step_ns - coalesce(s.data_wait_ns, 0)) FILTER (s.step >= c.step
            AND s.step < c.until_) AS after_ns,
        median(s.step_ns - coalesce(s.data_wait_ns, 0)) FILTER (s.step < c.step
            AND s.step >= $start) AS before_ns,
        count(*) FILTER (s.step >= c.step AND s.step < c.until_) AS after_,
            count(*) FILTER (s.step < c.step AND s.step >= $start) AS before_
    FROM changed c JOIN ranks r ON r.rank = c.rank JOIN step_series s ON s.rank = c.rank
    WHERE c.threads > $factor * r.processors AND c.threads > c.before_ GROUP BY ALL
), findings AS (
    SELECT rank, step, threads AS value, processors, 'from_a_step' AS since_,
        CASE WHEN before_ >= $few AND after_ >= $few THEN 'steps_before_and_after' ELSE 'too_few_steps' END
            AS evidence_, in_ms(before_ns) AS before_ms, in_ms(after_ns) AS after_ms,
        CASE WHEN before_ >= $few
            AND after_ >= $few
            AND after_ns > $slower * before_ns
            AND after_ns - before_ns > $least_ns THEN NULL ELSE 'warning' END AS severity
    FROM paces
    UNION ALL BY NAME
    SELECT h.rank, 0 AS step, h.threads AS value, h.processors, h.ranks AS processes,
        CASE WHEN h.ranks > 1 THEN 'in_processes' END AS since_,
        CASE WHEN w.samples > 0 THEN 'all_started' ELSE 'cost_unknown' END AS evidence_,
        'warning' AS severity
    FROM hosts h, wanting w
    WHERE h.threads > $factor * h.processors AND (w.samples = 0 OR w.existing >= h.threads)
    UNION ALL BY NAME
    SELECT h.rank, 0 AS step, round(w.runnable)::INT AS value, h.processors,
        'that_many_want_to_run' AS evidence_, h.threads AS torch_threads, 'warning' AS severity
    FROM hosts h, wanting w
    WHERE (SELECT count(*) FROM hosts) = 1
      AND w.samples >= $samples
      AND w.runnable > $factor * h.processors + 1
      AND h.threads <= $factor * h.processors
      AND NOT EXISTS (FROM paces)
)
SELECT * FROM findings ORDER BY step, rank
