/*
code = "CR001"
name = "python-exception"
severity = "fatal"
is = ["nonfinite-values"]
phase = "exit"
signal = "exception"
message = "The script raised {exception_type} at step {step}{in_module_}: {short}.{known_}"
fix = "{fix_}"
seeks = ["exits: exception_type IS NOT NULL AND status IN ('exception', 'oom', 'completed')"]
explains = []
[say.in_module_]
root = " in the root module"
root_classed = " in the root module ({module_class})"
named = " in module {module}"
classed = " in module {module} ({module_class})"
[say.dtypes_]
of_a_dtype = "{n} {dtype} (first {first})"
[say.known_]
dtypes_of_the_weights = " The trainable parameters are {dtypes_}."
[say.fix_]
known = "{remedy}"
known_at = "{remedy} ({user_frame})"
unknown = "Read the traceback from its last own line; the report shows the tensors that were at hand."
unknown_at = "Read the traceback from its last own line ({user_frame}); the report shows the tensors that were at hand."
[params.end]
value = 600
unit = "characters"
doc = "End of the traceback that is looked at."
source = "convention: of this project, the last two or three frames"
[params.late]
value = 16
unit = "steps"
doc = "Steps by which an assertion of a device may come up after its batch."
source = "convention: of this project, as for an index out of range on the device (DA031)"
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
    SELECT list({'dtypes_': 'of_a_dtype', 'n': n, 'dtype': dtype, 'first': first} ORDER BY dtype) AS dtypes_
    FROM (
        SELECT dtype, count(*) AS n, arg_min(tensor_name, tensor_id) AS first FROM tensors
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
        WHEN e.module = '' THEN CASE WHEN e.module_class IS NULL THEN 'root' ELSE 'root_classed' END
        WHEN e.module IS NOT NULL THEN CASE WHEN e.module_class IS NULL THEN 'named' ELSE 'classed' END
        END AS in_module_,
    CASE WHEN k.known IN ('unscale-fp16', 'same-dtype', 'input-weight-device', 'half-on-cpu', 'fsdp-flat')
        AND w.dtypes_ IS NOT NULL THEN 'dtypes_of_the_weights' END AS known_,
    w.dtypes_, k.remedy,
    CASE
        WHEN e.user_frame IS NULL THEN CASE WHEN k.remedy IS NULL THEN 'unknown' ELSE 'known' END
        ELSE CASE WHEN k.remedy IS NULL THEN 'unknown_at' ELSE 'known_at' END
        END AS fix_,
    -- an exception that speaks of numbers, or of a limit that was reached bit by bit, may have been coming
    -- for long; an assertion of a device comes up late; any other was brought about by what happened just now
    CASE
        WHEN regexp_matches(e.exception_message || chr(10) || right(e.traceback, $end),
            '(?i)(\bnan\b|\binf\b|isnan|isfinite|finite|infinity|diverge|overflow|exploded|too many open '
            'files)') OR k.known = 'onecycle-end' THEN NULL
        WHEN e.exception_message LIKE '%device-side assert%' THEN $late
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
