/*
code = "CR001"
name = "python-exception"
severity = "fatal"
is = ["nonfinite-values"]
phase = "exit"
signal = "exception"
message = "The script raised {exception_type} at step {step}{in_module}: {short}.{known_}"
fix = "{remedy}"
explains = []
[params.end]
value = 600
unit = "characters"
doc = "End of the traceback that is looked at."
source = "convention: of this project, the last two or three frames"
[needs]
ended = true
[doc]
what = "The run ended with an exception that the script did not catch."
why = "Nothing after it was trained or saved."
not_this = "KeyboardInterrupt, and sys.exit with status 0."
source = "The exit record; messages of torch and the frameworks round it as they are raised."
*/
WITH weights AS (
    -- what the remedy for a mixture of dtypes needs to know
    SELECT string_agg(n || ' ' || dtype || ' (first ' || first_ || ')', ', ' ORDER BY dtype) AS dtypes FROM (
        SELECT dtype, count(*) AS n, arg_min(tensor_name, tensor_id) AS first_ FROM tensors
        WHERE kind = 'parameter'
          AND requires_grad
          AND rank = (SELECT coalesce(min(rank), 0) FROM exits WHERE exception_type IS NOT NULL)
        GROUP BY dtype)
)
SELECT coalesce(e.rank, 0) AS rank,
    coalesce(e.step,
        (SELECT max(step)
            FROM (SELECT max(step) + 1 AS step
                FROM steps
                WHERE completed
                UNION ALL SELECT max(p.step)
                FROM last_positions p)),
        0) AS step,
    e.microbatch,
    coalesce(e.phase, 'exit') AS phase, e.module, NULL::VARCHAR AS tensor, e.exit_code AS value,
        e.exception_type, e.exception_message, e.module_class, e.user_frame,
    rtrim(first_line(e.exception_message), '.') AS short,
    CASE
        WHEN e.module IS NULL THEN ''
        WHEN e.module = '' THEN ' in the root module'
        ELSE ' in module ' || e.module
        END
        || CASE WHEN e.module_class IS NULL THEN '' ELSE ' (' || e.module_class || ')' END AS in_module,
    CASE WHEN k.known IN ('unscale-fp16', 'same-dtype', 'input-weight-device', 'half-on-cpu', 'fsdp-flat')
        AND w.dtypes IS NOT NULL THEN ' The trainable parameters are ' || w.dtypes || '.'
            ELSE ''
            END AS known_,
    coalesce(k.remedy || CASE WHEN e.user_frame IS NULL THEN '' ELSE ' (' || e.user_frame || ')' END,
        'Read the traceback from its last own line' || coalesce(' (' || e.user_frame || ')',
            '') || '; the report shows the tensors that were at hand.') AS remedy,
    -- an exception that speaks of numbers, or of a limit that was reached bit by bit, may have been coming
    -- for long; any other was brought about by what happened just now
    CASE
        WHEN regexp_matches(e.exception_message || chr(10) || right(e.traceback, $end),
            '(?i)(\bnan\b|\binf\b|isnan|isfinite|finite|infinity|diverge|overflow|exploded|too many open '
            'files)') OR k.known = 'onecycle-end' THEN NULL
        ELSE 1
        END AS reach
FROM exits e CROSS
JOIN weights w
LEFT JOIN known_exceptions k ON regexp_matches(e.exception_message, k.pattern)
WHERE e.exception_type IS NOT NULL AND e.status IN ('exception', 'oom', 'completed')
  AND e.exception_type NOT IN ('KeyboardInterrupt', 'GeneratorExit')
  AND NOT (e.exception_type LIKE '%SystemExit' AND coalesce(e.exit_code, 0) = 0)
QUALIFY row_number() OVER (PARTITION BY e.rank, e.exception_type, e.exception_message
    ORDER BY k.place NULLS LAST) = 1
