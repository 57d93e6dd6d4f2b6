/*
code = "CR003"
name = "native-crash"
severity = "fatal"
phase = "exit"
signal = "signal"
message = "Native code crashed with {signal_} at step {step}, in the {phase} phase{in_module_}."
fix = "Read the native stack in the report; check extensions and library versions against torch's. Run the same step on the CPU or with CUDA_LAUNCH_BLOCKING=1. Test the memory of the machine."
seeks = ["exits: status = 'signal'"]
explains = []
[say.signal_]
named = "{signal_name}"
numbered = "signal {value}"
[say.in_module_]
root = " of the root module"
named = " of module {module}"
[params.shown]
value = 2000
unit = "characters"
doc = "Length of the native stack that is kept."
source = "convention: of this project, as much as a screen shows"
[needs]
ended = true
[doc]
what = "The process died by SIGSEGV, SIGABRT, SIGBUS, SIGFPE or SIGILL."
why = "No Python handler could run; what had been recorded before is whole."
not_this = "Signals that came from outside (killed-by-signal)."
source = "The exit record of the supervisor; faulthandler's stacks."
*/
SELECT coalesce(p.rank, 0) AS rank,
    coalesce(p.step, (SELECT max(step) + 1 FROM steps WHERE completed), 0) AS step, p.microbatch,
    coalesce(p.phase, 'exit') AS phase,
    p.module, NULL::VARCHAR AS tensor, e.signal AS value,
        e.signal_name, CASE WHEN e.signal_name IS NULL THEN 'numbered' ELSE 'named' END AS signal_,
    CASE WHEN p.module = '' THEN 'root' WHEN p.module IS NOT NULL THEN 'named' END AS in_module_,
    e.core_dumped, left(e.native_stack, $shown) AS native_stack, p.pid
FROM exits e LEFT JOIN last_positions p ON true
WHERE e.status = 'signal' AND is_a_native_fault(e.signal)
ORDER BY step, rank
