/*
code = "RE005"
name = "recording-incomplete"
severity = "warning"
phase = "exit"
signal = "missing steps"
message = "From step {step} on the recording is incomplete: {what}."
fix = "{advice}"
explains = []
[params.late]
value = 5
unit = "steps"
doc = "A rank that is killed may have left so many steps on a device; more than these were lost on the way to the disk."
[needs]
tables = ["steps"]
[doc]
what = "Steps that the script did and the recording has not: rows that the disk refused, numbers that are skipped, or a rank that was last seen far behind its last row. Or a part of the recorder that failed and switched itself off."
why = "What happened in those steps cannot be judged, and a run that looks healthy without them need not be."
not_this = "Steps in which costly kinds were left out on purpose, and detail removed by --disk-limit: both are said beside the verdict. Logs of others that were imported and hold every so many steps. Steps in progress when a rank was killed. Steps of small models that went unwatched: they are counted in the next row."
source = "Counting; events rows-dropped and recorder-fault; the breadcrumb, which needs no disk space."
*/
WITH numbered AS (
    -- steps that went unwatched are told of by the row after them
    SELECT rank, step, unwatched, lead(step - unwatched) OVER (PARTITION BY rank ORDER BY step) AS next
    FROM (SELECT rank, step, max(coalesce(unwatched, 0)) AS unwatched FROM steps GROUP BY rank, step)
), ends AS (
    SELECT rank, max(step) AS last, count(*) AS steps, max(unwatched) AS unwatched FROM numbered GROUP BY rank
), gaps AS (
    SELECT rank, min(step + 1) AS step, sum(next - step - 1) AS missing FROM numbered
    -- a log that was imported may hold every tenth step, and says nothing of those between
    WHERE next > step + 1 AND NOT (SELECT options LIKE '%"imported"%' FROM runs) GROUP BY rank
), tails AS (
    SELECT e.rank, e.last + 1 AS step, p.step - e.last - 1 AS missing
    FROM ends e
    JOIN last_positions p ON p.rank = e.rank
    WHERE p.step - e.last - 1 >= greatest($late, e.unwatched + 1)
), missing_ AS (
    SELECT rank, min(step) AS step, sum(missing) AS missing
    FROM (FROM gaps UNION ALL BY NAME FROM tails)
    GROUP BY rank
), dropped AS (
    SELECT rank, min(step) AS step, arg_min(message, time_ns) AS message
    FROM events
    WHERE event = 'rows-dropped'
    GROUP BY rank
), faults AS (
    SELECT rank, min(step) AS step, arg_min(message, time_ns) AS message
    FROM events
    WHERE event = 'recorder-fault'
    GROUP BY rank
)
SELECT rank, step, missing::DOUBLE AS value, 'missing steps' AS signal,
    missing || ' steps that were trained have no row' || coalesce(' (' || d.message || ')', '') AS what,
    'Free space on the disk of the run folder, or record elsewhere with --out; what these steps did is not known.' AS advice
FROM missing_ m LEFT JOIN (SELECT rank, message FROM dropped) d USING (rank)
UNION ALL BY NAME
SELECT rank, step, NULL::DOUBLE AS value, 'missing rows' AS signal, message AS what,
    'Free space on the disk of the run folder, or record elsewhere with --out.' AS advice
FROM dropped WHERE rank NOT IN (SELECT rank FROM missing_)
UNION ALL BY NAME
SELECT rank, step, NULL::DOUBLE AS value, 'part switched off' AS signal, message AS what,
    'Please report it, with the line named; rules that need this part judge only the steps before.' AS advice
FROM faults
ORDER BY step, rank
