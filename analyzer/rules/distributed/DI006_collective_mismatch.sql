/*
code = "DI006"
name = "collective-mismatch"
severity = "error"
phase = "exit"
signal = "collective"
message = "Call {number} of group {group_} is not the same on all ranks{at_step_}: {calls_}. A collective ends only where all ranks make the same call."
fix = "Make the same calls in the same order on every rank. Put no collective under `if rank == 0`. Use as many batches on all ranks (or the Join context), and the same shapes and dtypes."
seeks = ["collectives: rank <> 0"]
explains = ["python-exception", "hang", "killed-by-signal", "rank-died", "native-crash", "shape-or-dtype-error", "ranks-diverged", "loss-off-course", "collective-not-joined"]
[say.at_step_]
step = " at step {step}"
[say.ranks_]
one = "rank {ranks}"
several = "ranks {ranks}"
[say.of_]
elements = " of {numel} {dtype}"
[say.at_]
line = " at {place}"
[say.in_step_]
step = " (step {step})"
[say.calls_]
made = "{ranks_} {op}{of_}{at_}{in_step_}"
never_came = "{ranks_} never came to it and was in step {step}, {phase} phase"
had_finished = "{ranks_} had finished"
[needs]
tables = ["collectives"]
[doc]
what = "The calls of one process group are counted on each rank. At one number they are of different kinds, types or sizes. Or one rank makes a call that another has passed without making it. Or the other can no longer make it because it has finished."
why = "Ranks match calls by their order, not by their names."
not_this = "Sends and receives between two ranks, gathers of unequal sizes, uneven data under Join. A rank that died, raised or still worked before the call."
source = "Semantics of torch.distributed process groups."
*/
-- shared
WITH calls AS (
    SELECT * FROM collective_calls WHERE op NOT IN ('send', 'recv', 'isend', 'irecv', 'batch_isend_irecv')
), members AS (
    -- under Join a rank that has no more data answers for its model inside C++: numbers part, and the run
    -- completes
    SELECT "group", count(*) AS ranks, min(made) = max(made) AS equally_many,
        coalesce((SELECT bool_or(status <> 'completed') FROM exits), true) AS broke
    FROM (SELECT "group", rank, count(*) AS made FROM calls GROUP BY "group", rank) GROUP BY "group"
), sizes AS (
    SELECT c."group", c.number, min(c.step) AS step, min(c.rank) AS rank, min(c.seq) AS seq,
        max(c.phase) AS phase, min(c.time_ns) AS time_ns,
        count(DISTINCT c.op) AS ops, count(DISTINCT c.dtype) AS dtypes,
        count(DISTINCT CASE
            WHEN c.op IN ('all_reduce', 'broadcast', 'reduce', 'all_gather', 'all_gather_into_tensor',
                'reduce_scatter_tensor') THEN c.numel
            END) AS numels,
        count(DISTINCT CASE WHEN c.op IN ('broadcast', 'reduce') THEN c.peer END) AS peers,
            count(DISTINCT c.reduce_op) AS reductions,
        bool_or(c.waited_ns IS NULL
            AND c.state IS DISTINCT FROM 'completed'
            AND c.blocking
            AND c.op NOT LIKE 'DistributedDataParallel%') AS open_,
        bool_or(c.error IS NOT NULL) AS failed, bool_and(c.blocking IS NULL AND c.time_ns = 0) AS traced
    FROM calls c GROUP BY c."group", c.number
), stood AS (
    -- where each rank was last heard of; phases are numbers here, to be compared
    SELECT rank, step, phase,
        list_position(['data', 'forward', 'loss', 'backward', 'optimizer', 'eval', 'exit'], phase) AS place
    FROM last_positions
)
-- detector: wrong
WITH absent AS (
    -- ranks that had passed the place of a call without making it: one that died, raised or still worked
    -- before it proves nothing
    SELECT s."group", s.number, bool_or(p.phase = 'exit') AS finished,
        list({'calls_': CASE WHEN p.phase = 'exit' THEN 'had_finished' ELSE 'never_came' END, 'ranks_': 'one',
            'ranks': p.rank::VARCHAR, 'rank': p.rank, 'step': p.step, 'phase': p.phase}
            ORDER BY p.rank) AS away
    FROM sizes s
    JOIN (SELECT "group", rank, min(number) AS first_
        FROM calls
        GROUP BY "group", rank) r ON r."group" = s."group"
        AND r.first_ <= s.number
    JOIN stood p ON p.rank = r.rank
    WHERE NOT EXISTS (SELECT 1
        FROM calls c
        WHERE c."group" = s."group" AND c.number = s.number AND c.rank = r.rank)
      AND (p.phase = 'exit'
          OR p.step > s.step
          OR (p.step = s.step
              AND p.place > list_position(['data', 'forward', 'loss', 'backward', 'optimizer', 'eval',
                  'exit'],
                  s.phase)))
    GROUP BY s."group", s.number
), later AS (
    -- calls that still came back afterwards: what is to have ended the run cannot have let many through
    SELECT s."group", s.number, count(c.number) AS returned FROM sizes s
    LEFT JOIN calls c ON c."group" = s."group"
        AND c.number > s.number
        AND (c.waited_ns IS NOT NULL OR c.state = 'completed')
        AND c.error IS NULL
    GROUP BY s."group", s.number
)
SELECT s.*, a.away
FROM sizes s
JOIN members m ON m."group" = s."group"
JOIN later l ON l."group" = s."group" AND l.number = s.number
LEFT JOIN absent a ON a."group" = s."group" AND a.number = s.number
-- execution traces (without times) may begin at different calls, which have the group's own numbers
WHERE m.ranks > 1
  AND ((m.broke AND l.returned <= m.ranks) OR (NOT m.broke AND (m.equally_many OR s.traced)))
  AND (s.ops > 1 OR s.dtypes > 1 OR s.numels > 1 OR s.peers > 1 OR s.reductions > 1
    OR (m.broke AND a.away IS NOT NULL AND (s.open_ OR s.failed OR a.finished)))
-- imported dumps have no steps, but a clock; the numbers of different groups say nothing of each other
QUALIFY row_number() OVER (ORDER BY s.step, CASE WHEN s.step IS NULL THEN s.time_ns END, s.number) = 1
-- together
WITH parts AS (
    -- ranks that made the same call stand together in the sentence
    SELECT 'made' AS calls_, CASE WHEN count(*) > 1 THEN 'several' ELSE 'one' END AS ranks_,
        rank_stretches(list(c.rank)) AS ranks, min(c.rank) AS rank, c.op, c.numel, c.dtype, c.place, c.step,
        CASE WHEN c.numel IS NOT NULL AND c.dtype IS NOT NULL THEN 'elements' END AS of_,
        CASE WHEN c.place IS NOT NULL THEN 'line' END AS at_,
        CASE WHEN c.step IS NOT NULL THEN 'step' END AS in_step_
    FROM calls c
    JOIN wrong w ON w."group" = c."group" AND w.number = c.number
    GROUP BY c.op, c.numel, c.dtype, c.place, c.step
    UNION ALL BY NAME
    SELECT unnest(away, recursive := true) FROM wrong
)
SELECT w.rank, w.step, w.seq, w.number, w."group" AS group_, w.number AS value,
    CASE WHEN w.step IS NOT NULL THEN 'step' END AS at_step_,
    (SELECT list(p ORDER BY p.calls_ <> 'made', p.rank) FROM parts p) AS calls_
FROM wrong w
