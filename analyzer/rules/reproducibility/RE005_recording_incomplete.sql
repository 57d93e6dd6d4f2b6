/*
code = "RE005"
name = "recording-incomplete"
severity = "warning"
phase = "exit"
signal = "missing steps"
message = "From step {step} on the recording is incomplete: {what_}."
fix = "{remedy}"
explains = []
[say.because_]
rows_dropped = " ({message})"
[say.what_]
steps_missing = "{missing} steps that were trained have no row{because_}"
rows_dropped = "{message}"
part_switched_off = "{message}"
[say.remedy]
steps_missing = "Free space on the disk of the run folder, or record elsewhere with --out; what these steps did is not known."
rows_dropped = "Free space on the disk of the run folder, or record elsewhere with --out."
part_switched_off = "Please report it, with the line named; rules that need this part judge only the steps before."
[params.late]
value = 5
unit = "steps"
doc = "A rank that is killed may have left so many steps on a device. More than these were lost on the way to the disk."
source = "convention: of this project, one journal write holds a few steps"
[params.apart]
value = 16
unit = "steps"
doc = "A process that is killed has counted so many steps that went unwatched and has not written them yet."
source = "arithmetic: the recorder writes a row for 16 unwatched steps at once"
[needs]
tables = ["steps"]
[doc]
what = "The recording lacks steps that the script did. The disk refused rows, numbers are skipped, or a rank was last seen far behind its last row. Or a part of the recorder failed and switched itself off."
why = "What happened in those steps cannot be judged, and a run that looks healthy without them need not be."
not_this = "Steps in which costly kinds were left out on purpose, and detail removed by --disk-limit. The verdict mentions both. Logs of others that were imported and hold every so many steps. Steps in progress when a rank was killed. Steps of small models that went unwatched: they are counted in unwatched_steps."
source = "Counting; events rows-dropped and recorder-fault; the breadcrumb, which needs no disk space."
*/
WITH numbered AS (
    SELECT rank, step, lead(step) OVER (PARTITION BY rank ORDER BY step) AS next
    FROM (SELECT DISTINCT rank, step FROM steps)
), ends AS (
    SELECT rank, max(step) AS last FROM numbered GROUP BY rank
), counted AS (
    -- steps that went unwatched, by the last watched one before them
    SELECT u.rank, n.step, sum(u.steps) AS steps
    FROM unwatched_steps u ASOF JOIN numbered n ON n.rank = u.rank AND u.step > n.step
    GROUP BY u.rank, n.step
), gaps AS (
    SELECT n.rank, min(n.step + 1) AS step, sum(n.next - n.step - 1 - coalesce(c.steps, 0)) AS missing
    FROM numbered n LEFT JOIN counted c USING (rank, step)
    -- a log that was imported may hold every tenth step, and says nothing of those between
    WHERE n.next - n.step - 1 > coalesce(c.steps, 0) AND NOT (SELECT options LIKE '%"imported"%' FROM runs)
    GROUP BY n.rank
), tails AS (
    SELECT e.rank, e.last + 1 AS step, p.step - e.last - 1 - coalesce(c.steps, 0) AS missing
    FROM ends e
    JOIN last_positions p ON p.rank = e.rank
    LEFT JOIN counted c ON c.rank = e.rank AND c.step = e.last
    WHERE p.step - e.last - 1 - coalesce(c.steps, 0) >= $late
      AND (p.step - e.last - 1 - coalesce(c.steps, 0) > $apart OR NOT EXISTS (FROM unwatched_steps))
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
SELECT rank, step, missing::DOUBLE AS value, 'missing steps' AS signal, missing, d.message,
    CASE WHEN d.message IS NOT NULL THEN 'rows_dropped' END AS because_,
    'steps_missing' AS what_, what_ AS remedy
FROM missing_ m LEFT JOIN (SELECT rank, message FROM dropped) d USING (rank)
UNION ALL BY NAME
SELECT rank, step, NULL::DOUBLE AS value, 'missing rows' AS signal, message,
    'rows_dropped' AS what_, what_ AS remedy
FROM dropped WHERE rank NOT IN (SELECT rank FROM missing_)
UNION ALL BY NAME
SELECT rank, step, NULL::DOUBLE AS value, 'part switched off' AS signal, message,
    'part_switched_off' AS what_, what_ AS remedy
FROM faults
ORDER BY step, rank
