/*
code = "CR004"
name = "hang"
severity = "fatal"
phase = "exit"
signal = "progress"
message = "The run hung at step {step}, in the {phase} phase{in_module}: {note}."
fix = "Read where each thread stood in the recorded stacks. Usual places: a lock taken before a fork, a queue whose other side is gone, a collective that another rank never enters, a loader worker that waits for its own data."
explains = ["killed-by-signal", "python-exception"]
[params.steps]
value = 20
unit = "usual steps"
doc = "Standstill before a signal ended the run that counts as a hang."
[params.least_ns]
value = 1e10
unit = "ns"
doc = "And its length at least."
[needs]
ended = true
[doc]
what = "For the time limit of a hang no rank moved: no hook was called and nothing was written; it never went on, and somebody had to end it. Or it was ended sooner, when it had stood still for twenty usual steps and ten seconds."
why = "A hanging run ends by hand or by its time limit, and the reason then given is not the cause."
not_this = "Long evaluations, checkpoints and loading that go on afterwards; a run that is ended in the middle of its work."
source = "The supervisor's watch over breadcrumbs and journals: by default 20 usual steps, at least five minutes."
*/
WITH usual AS (
    SELECT median(step_ns) AS step_ns, count(*) AS steps, max(time_ns) AS last_ns
    FROM steps
    WHERE completed AND step_ns > 0
), stood AS (
    SELECT e.ended_ns - greatest(u.last_ns, (SELECT max(time_ns) FROM last_positions)) AS still_ns,
        coalesce(e.signal_name, 'Ctrl-C') AS by_
    FROM exits e CROSS JOIN usual u
    WHERE ((e.status = 'signal' AND e.signal IN (1, 2, 3, 9, 14, 15))
        OR e.exception_type = 'KeyboardInterrupt')
      AND u.steps >= 5
      AND (SELECT count(*) FROM last_positions WHERE phase <> 'exit') > 0
      AND e.ended_ns - greatest(u.last_ns,
          (SELECT max(time_ns) FROM last_positions)) > greatest($steps * u.step_ns, $least_ns)
)
SELECT coalesce(p.rank, 0) AS rank,
    coalesce(p.step, (SELECT max(step) + 1 FROM steps WHERE completed), 0) AS step, p.microbatch,
    coalesce(p.phase, 'exit') AS phase,
    p.module, NULL::VARCHAR AS tensor, NULL::DOUBLE AS value,
        rtrim(coalesce((SELECT format('no progress for {:d} s, then ended by {}', (still_ns / 1e9)::BIGINT,
            by_)
            FROM stood),
            e.note, 'no progress was made'),
            '.') AS note,
    CASE
        WHEN p.module IS NULL THEN ''
        WHEN p.module = '' THEN ' of the root module'
        ELSE ' of module ' || p.module
        END AS in_module,
    left(e.native_stack, 4000) AS stacks, p.pid
FROM exits e LEFT JOIN last_positions p ON true
WHERE e.status = 'hang' OR EXISTS (FROM stood)
-- the rank that stands furthest behind is the one that the others wait for
QUALIFY row_number() OVER (ORDER BY p.step, p.time_ns, p.rank) = 1
