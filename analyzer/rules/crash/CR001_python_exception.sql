/*
code = "CR001"
name = "python-exception"
severity = "fatal"
phase = "exit"
signal = "exception"
message = "The script raised {exception_type} at step {step}{in_module}: {short}."
fix = "Read the traceback from its last own line ({user_frame}); the report shows the tensors that were at hand."
explains = []
[needs]
ended = true
[doc]
what = "The run ended with an exception that the script did not catch."
why = "Nothing after it was trained or saved."
not_this = "KeyboardInterrupt, and sys.exit with status 0."
source = "The exit record."
*/
SELECT coalesce(e.rank, 0) AS rank, coalesce(e.step, (SELECT max(step) FROM (SELECT max(step) + 1 AS step FROM steps WHERE completed UNION ALL SELECT max(p.step) FROM last_positions p)), 0) AS step, e.microbatch,
    coalesce(e.phase, 'exit') AS phase, e.module, NULL::VARCHAR AS tensor, e.exit_code AS value, e.exception_type, e.exception_message, e.module_class, e.user_frame,
    rtrim(left(split_part(trim(e.exception_message), chr(10), 1), 300), '.') AS short,
    CASE WHEN e.module IS NULL THEN '' WHEN e.module = '' THEN ' in the root module' ELSE ' in module ' || e.module END
        || CASE WHEN e.module_class IS NULL THEN '' ELSE ' (' || e.module_class || ')' END AS in_module,
    -- an exception that speaks of numbers, or of a limit that was reached bit by bit, may have been coming for long; any other was brought about by what happened just now
    CASE WHEN regexp_matches(e.exception_message || chr(10) || right(e.traceback, 600), '(?i)(\bnan\b|\binf\b|isnan|isfinite|finite|infinity|diverge|overflow|exploded|too many open files)') THEN NULL ELSE 1 END AS reach
FROM exits e
WHERE e.exception_type IS NOT NULL AND e.status IN ('exception', 'oom', 'completed')
  AND e.exception_type NOT IN ('KeyboardInterrupt', 'GeneratorExit')
  AND NOT (e.exception_type LIKE '%SystemExit' AND coalesce(e.exit_code, 0) = 0)
