/*
code = "CR005"
name = "host-lost"
severity = "fatal"
phase = "exit"
signal = "exit"
message = "The record ends at step {step}, in the {phase} phase{in_module}, and does not say how: {how}. Last sign of life: {when_}."
fix = "Look at the host and the scheduler at that time. Usual causes are power, a kernel panic, a node taken away or an out-of-memory killer. Or somebody killed the job with its supervisor. Continue the training with `firstfault run --resume`."
explains = []
[params.ns_per_us]
value = 1000
unit = "ns"
doc = "In a microsecond."
source = "arithmetic: a unit"
[needs]
ended = true
[doc]
what = "There is no exit record, and the processes are gone. A supervisor (or the Python API) writes a record at every end that it sees."
why = "Whatever ended the run ended its supervisor with it; what had been recorded before is whole."
not_this = "A run that is still going. Seen from another host it is only a warning: nobody can look for its processes there."
source = "exit.json is missing; the breadcrumb; the heartbeat of the supervisor (one sample a second)."
*/
WITH last_sample AS (SELECT max(time_ns) AS time_ns FROM system_samples)
SELECT coalesce(p.rank, 0) AS rank,
    coalesce(p.step, (SELECT max(step) + 1 FROM steps WHERE completed), 0) AS step, p.microbatch,
    coalesce(p.phase, 'exit') AS phase,
    p.module, NULL::VARCHAR AS tensor, NULL::DOUBLE AS value,
    CASE WHEN e.process_gone THEN NULL ELSE 'warning' END AS severity,
    CASE
        WHEN e.process_gone THEN 'its processes are gone'
        ELSE 'it was recorded on another host (' || r.hostname || ') and has been silent since'
        END
        || CASE WHEN r.supervised THEN ', and the supervisor with them' ELSE '' END AS how,
    coalesce(strftime(make_timestamp(greatest(p.time_ns, coalesce(s.time_ns, 0)) // $ns_per_us),
        '%Y-%m-%d %H:%M:%S') || ' UTC',
        'unknown') AS when_,
    CASE
        WHEN p.module IS NULL THEN ''
        WHEN p.module = '' THEN ' of the root module'
        ELSE ' of module ' || p.module
        END AS in_module
FROM exits e CROSS JOIN runs r CROSS JOIN last_sample s LEFT JOIN last_positions p ON true
WHERE e.status = 'host-lost'
QUALIFY row_number() OVER (ORDER BY p.step, p.time_ns, p.rank) = 1
