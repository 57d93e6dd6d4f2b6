/*
code = "CR004"
name = "hang"
severity = "fatal"
phase = "exit"
signal = "progress"
message = "The run hung at step {step}, in the {phase} phase{in_module}: {note}."
fix = "Read where each thread stood in the recorded stacks. Usual places: a lock taken before a fork, a queue whose other side is gone, a collective that another rank never enters, a loader worker that waits for its own data."
explains = ["killed-by-signal", "python-exception"]
[needs]
ended = true
[doc]
what = "For the time limit of a hang no rank moved: no hook was called and nothing was written; it never went on, and somebody had to end it."
why = "A hanging run ends by hand or by its time limit, and the reason then given is not the cause."
not_this = "Long evaluations, checkpoints and loading that go on afterwards; a run that is ended before the limit has passed."
source = "The supervisor's watch over breadcrumbs and journals: by default 20 usual steps, at least five minutes."
*/
SELECT coalesce(p.rank, 0) AS rank, coalesce(p.step, (SELECT max(step) + 1 FROM steps WHERE completed), 0) AS step, p.microbatch, coalesce(p.phase, 'exit') AS phase,
    p.module, NULL::VARCHAR AS tensor, NULL::DOUBLE AS value, rtrim(coalesce(e.note, 'no progress was made'), '.') AS note,
    CASE WHEN p.module IS NULL THEN '' WHEN p.module = '' THEN ' of the root module' ELSE ' of module ' || p.module END AS in_module,
    left(e.native_stack, 4000) AS stacks, p.pid
FROM exits e LEFT JOIN last_positions p ON true
WHERE e.status = 'hang'
-- the rank that stands furthest behind is the one that the others wait for
QUALIFY row_number() OVER (ORDER BY p.step, p.time_ns, p.rank) = 1
