/*
code = "CR002"
name = "killed-by-signal"
severity = "fatal"
phase = "exit"
signal = "signal"
message = "{signal_name} ended the run at step {step}, in the {phase} phase{in_module}; {why}."
fix = "Save checkpoints often, and find out who sent the signal. {advice}"
explains = []
[params.kill]
value = 9
doc = "Number of SIGKILL."
source = "arithmetic: POSIX"
[params.term]
value = 15
doc = "Number of SIGTERM."
source = "arithmetic: POSIX"
[needs]
ended = true
[doc]
what = "A signal ended the process. It came from outside, or from a timer or limit of its own. The breadcrumb says where the process was."
why = "Nothing after it was trained or saved; what had been recorded before is whole."
not_this = "SIGINT (somebody pressed Ctrl-C), and crashes of native code (native-crash)."
source = "The exit record of the supervisor."
*/
SELECT coalesce(p.rank, 0) AS rank,
    coalesce(p.step, (SELECT max(step) + 1 FROM steps WHERE completed), 0) AS step, p.microbatch,
    coalesce(p.phase, 'exit') AS phase,
    p.module, NULL::VARCHAR AS tensor, e.signal AS value,
        coalesce(e.signal_name, 'signal ' || e.signal) AS signal_name,
    CASE
        WHEN p.module IS NULL THEN ''
        WHEN p.module = '' THEN ' of the root module'
        ELSE ' of module ' || p.module
        END AS in_module,
    CASE WHEN e.status = 'oom'
        OR e.oom_kills > 0 THEN 'memory had reached its limit (' || e.memory_peak_bytes || ' of '
            || e.memory_limit_bytes || ' bytes)'
        WHEN e.signal = $kill THEN 'somebody or something sent SIGKILL, which no process can catch'
        WHEN e.signal = $term THEN 'SIGTERM is how schedulers preempt and time-limit a job'
        WHEN comes_from_a_timer(e.signal) THEN 'it is what a timer sends that the process itself has set'
        WHEN is_a_limit(e.signal) THEN 'a limit on the process was reached (ulimit)'
        ELSE 'it came from outside the script' END AS why,
    CASE WHEN e.status = 'oom' OR e.oom_kills > 0
        THEN 'Lower the batch size or the number of loader workers, or give the job more memory.'
        WHEN e.signal = $kill
        THEN 'Look in the kernel log and the scheduler for an out-of-memory killer, a time limit or '
            'an operator.'
        WHEN e.signal = $term
        THEN 'Save a checkpoint on SIGTERM and resume; ask the scheduler why it ended the job.'
        WHEN comes_from_a_timer(e.signal)
        THEN 'Look for signal.alarm or signal.setitimer in the script and its libraries, as in '
            'timeouts: it was not cancelled, and nothing handled it.'
        WHEN is_a_limit(e.signal)
        THEN 'Look at ulimit -t (seconds of the processor) and ulimit -f (size of files).'
        ELSE 'The scheduler or another process of the same user can.' END AS advice,
    e.memory_peak_bytes, e.memory_limit_bytes, e.oom_kills, p.pid
FROM exits e LEFT JOIN last_positions p ON true
WHERE e.status IN ('signal', 'oom')
  AND e.signal IS NOT NULL
  AND e.signal <> 2
  AND NOT is_a_native_fault(e.signal)
ORDER BY step, rank
