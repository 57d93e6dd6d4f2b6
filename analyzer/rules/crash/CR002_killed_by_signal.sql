/*
code = "CR002"
name = "killed-by-signal"
severity = "fatal"
phase = "exit"
signal = "signal"
message = "{signal_} ended the run at step {step}, in the {phase} phase{in_module_}; {why_}."
fix = "Save checkpoints often, and find out who sent the signal. {remedy}"
seeks = ["exits: status IN ('signal', 'oom') AND signal IS NOT NULL"]
explains = []
[say.signal_]
named = "{signal_name}"
numbered = "signal {value}"
[say.in_module_]
root = " of the root module"
named = " of module {module}"
[say.used_]
measured = " ({memory_peak_bytes} of {memory_limit_bytes} bytes)"
[say.why_]
memory_at_its_limit = "memory had reached its limit{used_}"
killed = "somebody or something sent SIGKILL, which no process can catch"
preempted = "SIGTERM is how schedulers preempt and time-limit a job"
own_timer = "it is what a timer sends that the process itself has set"
ulimit = "a limit on the process was reached (ulimit)"
from_outside = "it came from outside the script"
[say.remedy]
memory_at_its_limit = "Lower the batch size or the number of loader workers, or give the job more memory."
killed = "Look in the kernel log and the scheduler for an out-of-memory killer, a time limit or an operator."
preempted = "Save a checkpoint on SIGTERM and resume; ask the scheduler why it ended the job."
own_timer = "Look for signal.alarm or signal.setitimer in the script and its libraries, as in timeouts: it was not cancelled, and nothing handled it."
ulimit = "Look at ulimit -t (seconds of the processor) and ulimit -f (size of files)."
from_outside = "The scheduler or another process of the same user can."
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
        e.signal_name, CASE WHEN e.signal_name IS NULL THEN 'numbered' ELSE 'named' END AS signal_,
    CASE WHEN p.module = '' THEN 'root' WHEN p.module IS NOT NULL THEN 'named' END AS in_module_,
    CASE
        WHEN e.status = 'oom' OR e.oom_kills > 0 THEN 'memory_at_its_limit'
        WHEN e.signal = $kill THEN 'killed'
        WHEN e.signal = $term THEN 'preempted'
        WHEN comes_from_a_timer(e.signal) THEN 'own_timer'
        WHEN is_a_limit(e.signal) THEN 'ulimit'
        ELSE 'from_outside'
        END AS why_,
    why_ AS remedy,
    CASE WHEN e.memory_peak_bytes + e.memory_limit_bytes IS NOT NULL THEN 'measured' END AS used_,
    e.memory_peak_bytes, e.memory_limit_bytes, e.oom_kills, p.pid
FROM exits e LEFT JOIN last_positions p ON true
WHERE e.status IN ('signal', 'oom')
  AND e.signal IS NOT NULL
  AND e.signal <> 2
  AND NOT is_a_native_fault(e.signal)
ORDER BY step, rank
