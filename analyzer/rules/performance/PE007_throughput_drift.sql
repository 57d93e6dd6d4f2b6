/*
code = "PE007"
name = "throughput-drift"
severity = "warning"
phase = "step"
signal = "step_ns"
message = "From about step {step} on steps take longer and longer: {early_ms} ms at first, {late_ms} ms at the end. All {steps_} steps are of the same size, and {phase_} grew most."
fix = "Look for what grows with the steps. It may be lists of tensors, graphs kept alive, logs rewritten as a whole, or hooks added in the loop. Otherwise look for a machine that slows down."
seeks = ["step_series: step_ns - coalesce(recorder_ns, 0) > least($few_ns, $least_ns)"]
explains = []
[say.phase_]
data = "waiting for data"
forward = "the forward pass"
backward = "the backward pass"
optimizer = "the optimizer step"
rest = "what runs between them"
[params.factor]
value = 1.5
unit = "times"
doc = "Last eighth of the run over the second."
source = "own history"
[params.least_ns]
value = 2e7
unit = "ns"
doc = "Growth below this is noise of a busy machine."
source = "convention: of this project, 20 ms: less is a busy machine"
[params.many]
value = 3
unit = "times"
doc = "Growth beyond which less than that in ns counts as well."
source = "own history"
[params.few_ns]
value = 5e6
unit = "ns"
doc = "The least then."
source = "convention: of this project, 5 ms: less is scheduling, however short the steps"
[params.own]
value = 0.7
doc = "Share of the processor time wanted by its threads above which a process has the machine for itself."
source = "convention: of this project, more than two thirds of what it asks for"
[params.parts]
value = 8
unit = "parts"
doc = "Parts into which the run is cut."
source = "arithmetic"
[params.concordant]
value = 19
unit = "pairs"
doc = "Of the 21 pairs of the last seven parts, in which the later one is slower: by chance once in a thousand times."
source = "arithmetic"
[params.around]
value = 4
unit = "steps"
doc = "Steps on either side over which the onset is smoothed."
source = "own history"
[params.onset]
value = 0.05
unit = "of the growth"
doc = "What a step may have grown that is still one of the first ones."
source = "own history"
[params.percent]
value = 100
unit = "percent"
doc = "A runnable thread wants a whole processor."
source = "arithmetic"
[params.ns_per_ms]
value = 1e6
unit = "ns"
doc = "In a millisecond."
source = "arithmetic"
[params.same]
value = 1.1
unit = "times"
doc = "Growth of inputs or of microbatches up to which the work is the same."
source = "own history"
[needs]
tables = ["steps"]
columns = ["steps.step_ns"]
steps = 80
[doc]
what = "The median step time rises from eighth to eighth of the run, with hardly an exception."
why = "The work of a step is the same; what it costs should be."
not_this = "Inputs or microbatches that grow, another model that is trained next, a single slow stretch. A machine that others use more and more, the first eighth of the run."
source = "Kendall's count of concordant pairs over the medians of eight parts."
*/
-- shared
WITH parts AS (
    SELECT rank, step, time_ns, step_ns - coalesce(recorder_ns, 0) AS step_ns, forward_ns, backward_ns,
        optimizer_ns, data_wait_ns, microbatches, ntile($parts) OVER (PARTITION BY rank ORDER BY step) AS part
    FROM step_series
    WHERE step_ns > coalesce(recorder_ns, 0)
), medians AS (
    SELECT rank, part, median(step_ns) AS ns, median(forward_ns) AS forward_,
        median(backward_ns) AS backward_, median(optimizer_ns) AS optimizer_, median(data_wait_ns) AS wait_,
        min(step) AS step, min(time_ns) AS since, max(time_ns) AS until, count(*) AS n
            FROM parts
            GROUP BY rank, part
), rising AS (
    -- pairs of the last seven parts in which the later one is slower: 19 of 21 by chance once in a thousand
    -- times
    SELECT a.rank, count(*) FILTER (b.ns > a.ns) >= $concordant AS rises
    FROM medians a
    JOIN medians b ON b.rank = a.rank AND b.part > a.part
    WHERE a.part > 1
    GROUP BY a.rank
), smooth AS (
    SELECT rank, step, part,
        median(step_ns) OVER (PARTITION BY rank
            ORDER BY step ROWS BETWEEN $around PRECEDING AND $around FOLLOWING) AS ns
    FROM parts
), levels AS (
    SELECT rank, min(ns) FILTER (part <= 2) AS low, max(ns) FILTER (part = $parts) AS high
    FROM medians
    GROUP BY rank
)
-- detector: judged
SELECT rank, max(ns) FILTER (part = 2) AS early, max(ns) FILTER (part = $parts) AS late, sum(n) AS steps_,
    any_value(rises) AS rises,
    max(forward_) FILTER (part = $parts) - max(forward_) FILTER (part = 2) AS forward_,
        max(backward_) FILTER (part = $parts) - max(backward_) FILTER (part = 2) AS backward_,
    max(optimizer_) FILTER (part = $parts) - max(optimizer_) FILTER (part = 2) AS optimizer_,
        max(wait_) FILTER (part = $parts) - max(wait_) FILTER (part = 2) AS wait_
FROM medians JOIN rising USING (rank) GROUP BY rank HAVING max(part) = $parts
-- together
WITH onset AS (
    -- the last step that is hardly longer than the first ones; what has grown by the end of the first eighth
    -- grew from the start
    SELECT rank, CASE WHEN max(part) = 1 THEN 0 ELSE max(step) + 1 END AS step
    FROM smooth s JOIN levels l USING (rank) WHERE s.ns <= l.low + $onset * (l.high - l.low) GROUP BY rank
), sizes AS (
    SELECT b.rank,
        max(t.numel) FILTER (b.step > h.half) / nullif(max(t.numel) FILTER (b.step <= h.half), 0) AS growth
    FROM batches b
    JOIN tensor_stats t ON t.rank = b.rank AND t.step = b.step AND t.seq = b.seq AND t.tensor_id = b.tensor_id
    JOIN (SELECT rank, median(step) AS half FROM steps GROUP BY rank) h ON h.rank = b.rank
    WHERE b.role = 'input' GROUP BY b.rank
), pieces AS (
    -- batches that are taken in more and more parts, or more batches for a step
    SELECT rank,
        median(microbatches) FILTER (part = $parts) / nullif(median(microbatches) FILTER (part = 2),
            0) AS growth
    FROM parts
    GROUP BY rank
), processor AS (
    -- what the processes had of the processors that they could have used: threads that wait for one are
    -- runnable too
    SELECT m.rank, m.part, avg(y.cpu_percent) AS used, $percent * avg(y.runnable) AS wanted
    FROM medians m
    JOIN system_samples y ON y.time_ns BETWEEN m.since AND m.until
    WHERE m.part IN (2, $parts)
    GROUP BY m.rank, m.part
), machine AS (
    -- growth of the processor time of a step, where others had the machine: few samples, so that only a
    -- doubling counts
    SELECT a.rank, b.used * n.ns / nullif(a.used * m.ns, 0) AS growth
    FROM processor a
    JOIN processor b ON b.rank = a.rank
    JOIN medians m ON m.rank = a.rank AND m.part = 2
    JOIN medians n ON n.rank = a.rank AND n.part = $parts
    WHERE a.part = 2 AND b.part = $parts AND b.used < $own * b.wanted
)
SELECT j.rank, o.step, j.late AS value, round(j.early / $ns_per_ms, 1) AS early_ms,
    round(j.late / $ns_per_ms, 1) AS late_ms, j.steps_,
    CASE greatest(coalesce(forward_, 0), coalesce(backward_, 0), coalesce(optimizer_, 0), coalesce(wait_, 0),
        (late - early) / 2)
        WHEN forward_ THEN 'forward'
        WHEN backward_ THEN 'backward'
        WHEN optimizer_ THEN 'optimizer'
        WHEN wait_ THEN 'data'
        ELSE 'rest'
        END AS phase_
FROM judged j
JOIN onset o ON o.rank = j.rank
LEFT JOIN sizes s ON s.rank = j.rank
LEFT JOIN machine c ON c.rank = j.rank
LEFT JOIN pieces p ON p.rank = j.rank
WHERE coalesce(c.growth > 2, true)
  AND j.rises
  AND j.late > $factor * j.early
  AND j.late - j.early > CASE WHEN j.late > $many * j.early THEN $few_ns ELSE $least_ns END
  AND coalesce(s.growth <= $same, true)
  AND coalesce(p.growth <= $same, true)
  -- another model has steps of its own
  AND NOT EXISTS (FROM handovers h WHERE h.rank = j.rank AND h.fresh)
ORDER BY o.step, j.rank
