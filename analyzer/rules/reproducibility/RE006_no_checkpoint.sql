/*
code = "RE006"
name = "no-checkpoint"
severity = "warning"
phase = "exit"
signal = "checkpoint"
message = "{said_}: {lost} steps ({minutes} minutes) of training are lost."
fix = "Save model, optimizer, scheduler and random states at regular intervals: torch.save to a temporary name, then rename. Save once more when a signal to end arrives."
explains = []
[say.said_]
never_saved = "The run crashed and had never saved a checkpoint"
crashed = "The run crashed {lost} steps after its last checkpoint"
might_have_crashed = "The run went for hours without a checkpoint; had it crashed then"
[params.steps]
value = 100
unit = "steps"
doc = "Steps after the last checkpoint whose loss in a crash is worth a word."
source = "convention: of this project, fewer steps are done again quickly"
[params.minutes]
value = 10.0
unit = "minutes"
doc = "The same in time."
source = "convention: of this project, less time is not worth a word"
[params.long]
value = 120.0
unit = "minutes"
doc = "Time without a checkpoint that is worth a word although nothing has crashed."
source = "convention: of this project, two hours of work are worth a checkpoint"
[params.ns_per_minute]
value = 6e10
unit = "ns"
doc = "In a minute."
source = "arithmetic: a unit"
[needs]
tables = ["steps"]
ended = true
[doc]
what = "The run ended in a crash long after its last checkpoint, or without any. Or it ran for hours without one."
why = "What was not saved has to be trained again."
not_this = "Short runs. Logs of others that were imported, which do not tell of checkpoints. Files that are written by other means than torch.save and safetensors cannot be seen."
source = "Counting."
*/
WITH ends AS (
    SELECT rank, max(step) AS last_step, max(time_ns) AS last_ns, min(time_ns) AS first_ns
    FROM steps
    WHERE completed
    GROUP BY rank
), saves AS (
    SELECT max(step) AS step, max(time_ns) AS time_ns FROM checkpoints WHERE action = 'saved'
), gaps AS (
    SELECT max(gap) AS longest FROM (
        SELECT time_ns - lag(time_ns) OVER (ORDER BY time_ns) AS gap FROM (
            SELECT time_ns
            FROM checkpoints
            WHERE action = 'saved'
            UNION ALL SELECT first_ns
            FROM ends
            UNION ALL SELECT last_ns
            FROM ends))
), judged AS (
    SELECT e.*, s.step AS saved_step, e.last_step + 1 - coalesce(s.step, 0) AS lost,
        (e.last_ns - coalesce(s.time_ns, e.first_ns)) / $ns_per_minute AS minutes,
            g.longest / $ns_per_minute AS longest,
        x.status IN ('exception', 'signal', 'oom', 'hang') AS crashed
    FROM ends e CROSS
    JOIN saves s CROSS
    JOIN gaps g CROSS
    JOIN exits x
    WHERE e.rank = (SELECT min(rank) FROM ends)
)
SELECT rank, coalesce(saved_step, 0) AS step, lost,
    CASE WHEN crashed THEN minutes ELSE longest END AS minutes, lost AS value,
    CASE WHEN crashed AND saved_step IS NULL THEN 'never_saved' WHEN crashed THEN 'crashed'
        ELSE 'might_have_crashed' END AS said_
FROM judged
WHERE NOT (SELECT options LIKE '%"imported"%' FROM runs)
  AND ((crashed AND (lost >= $steps OR minutes >= $minutes)) OR (NOT crashed AND longest >= $long))
