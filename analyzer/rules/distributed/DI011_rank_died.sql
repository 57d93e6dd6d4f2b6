/*
code = "DI011"
name = "rank-died"
severity = "fatal"
phase = "exit"
signal = "rank"
message = "Rank {rank} was gone at step {step} ({phase_} phase{in_module_}); the others lost their connection to it{said_}."
fix = "Look at how rank {rank} (process {pid}) ended: its own output, dmesg for the out-of-memory killer, the scheduler's log. What the other ranks raised only followed."
seeks = ["exits: status <> 'completed' AND exception_message IS NOT NULL"]
explains = ["python-exception", "hang", "killed-by-signal", "ranks-diverged"]
[say.in_module_]
module = ", module {module}"
[say.said_]
launcher = "; the launcher says {ended_by}"
[needs]
ended = true
[doc]
what = "Other ranks report a closed connection, or the launcher reports a process ended by a signal. The rank that was heard of last had raised nothing itself."
why = "A collective cannot end without all its members."
not_this = "A rank that raised an exception of its own: that is the cause. A mismatch of calls that ran into its timeout."
source = "Messages of gloo, NCCL, torch.multiprocessing and torchrun."
*/
WITH told AS (
    SELECT e.*,
        regexp_extract(e.exception_message, 'process (\d+) terminated with (signal \w+|exit code \d+)',
            ['rank', 'how']) AS launcher,
        regexp_matches(e.exception_message,
            '(?i)(connection closed by peer|connection reset by peer|socket closed|broken pipe|remote '
            'process (has )?exited|connection refused|heartbeat)') AS lost
    FROM exits e WHERE e.status <> 'completed'
), raised AS (
    SELECT DISTINCT rank
    FROM events
    WHERE event = 'exception'
      AND NOT regexp_matches(message,
          '(?i)(connection closed by peer|connection reset by peer|socket closed|broken pipe|remote '
          'process|connection refused|heartbeat)')
), silent AS (
    SELECT p.*, row_number() OVER (
        -- the others went on to where they wait for it, and wait there since earlier: the one that is behind
        -- is the one that died
        ORDER BY p.step, p.microbatch,
            list_position(['data', 'forward', 'loss', 'backward', 'optimizer', 'eval', 'exit'], p.phase),
            p.time_ns
    ) AS place FROM last_positions p
    WHERE p.rank NOT IN (SELECT rank FROM raised) AND p.phase <> 'exit'
      -- whoever lost the connection was still there
      AND p.rank NOT IN (SELECT rank FROM events WHERE event = 'exception') AND p.rank IS DISTINCT
          FROM (SELECT any_value(rank) FROM told WHERE lost)
)
SELECT s.rank, s.step, s.microbatch, s.module, s.rank AS value, s.pid, s.phase AS phase_,
    t.launcher.how AS ended_by, CASE WHEN s.module <> '' THEN 'module' END AS in_module_,
    CASE WHEN ended_by <> '' THEN 'launcher' END AS said_
FROM told t
JOIN silent s ON (t.launcher.rank <> '' AND s.rank = try_cast(t.launcher.rank AS INTEGER))
    OR (t.launcher.rank = '' AND t.lost AND s.place = 1)
WHERE (SELECT count(*) FROM last_positions) > 1
  AND (t.lost OR t.launcher.how LIKE 'signal%')
  AND t.launcher.how <> 'signal SIGABRT'
