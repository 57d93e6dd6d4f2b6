/*
code = "CR005"
name = "host-lost"
severity = "fatal"
phase = "exit"
signal = "exit"
message = "The record ends at step {step}, in the {phase} phase{in_module_}, and does not say how: {how_}. Last sign of life: {when_}."
fix = "Look at the host and the scheduler at that time. Usual causes are power, a kernel panic, a node taken away or an out-of-memory killer. Or somebody killed the job with its supervisor. Continue the training with `firstfault run --resume`."
seeks = ["exits: status = 'host-lost'"]
explains = []
[say.in_module_]
root = " of the root module"
named = " of module {module}"
[say.how_]
processes_gone = "its processes are gone"
processes_and_supervisor_gone = "its processes are gone, and the supervisor with them"
silent_elsewhere = "it was recorded on another host ({hostname}) and has been silent since"
silent_elsewhere_with_supervisor = "it was recorded on another host ({hostname}) and has been silent since, and the supervisor with them"
[say.when_]
known = "{last_sign} UTC"
unknown = "unknown"
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
        WHEN e.process_gone AND r.supervised THEN 'processes_and_supervisor_gone'
        WHEN e.process_gone THEN 'processes_gone'
        WHEN r.supervised THEN 'silent_elsewhere_with_supervisor'
        ELSE 'silent_elsewhere'
        END AS how_,
    r.hostname,
    strftime(make_timestamp(greatest(p.time_ns, s.time_ns) // $ns_per_us), '%Y-%m-%d %H:%M:%S') AS last_sign,
    CASE WHEN last_sign IS NULL THEN 'unknown' ELSE 'known' END AS when_,
    CASE WHEN p.module = '' THEN 'root' WHEN p.module IS NOT NULL THEN 'named' END AS in_module_
FROM exits e CROSS JOIN runs r CROSS JOIN last_sample s LEFT JOIN last_positions p ON true
WHERE e.status = 'host-lost'
QUALIFY row_number() OVER (ORDER BY p.step, p.time_ns, p.rank) = 1
