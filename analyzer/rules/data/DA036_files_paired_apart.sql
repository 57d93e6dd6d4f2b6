/*
code = "DA036"
name = "files-paired-apart"
severity = "error"
phase = "data"
signal = "source"
message = "{place} pairs two listings by their places ({text}). {first} and {second} list the same {files} names in another order. So {value} files meet a file of another name, such as {one} and {other}{more}."
fix = "Sort both: sorted({first_text}) and sorted({second_text}). Or make the second name from the first."
explains = ["shuffled-labels", "loss-off-course", "nothing-learnt", "overfit"]
[say.more]
alone = ""
others = "; {others} other pairs of listings are paired so"
[needs]
tables = ["events"]
[doc]
what = "Files of two folders are listed by os.listdir, os.scandir, glob or pathlib, and neither list is sorted. The source pairs them by one index or by zip. The two lists have the same names, but for what all names of a folder have in common. Their orders differ on this machine."
why = "The order of a listing is arbitrary. Each input gets the label of another file, and nothing fails."
not_this = "Listings that are sorted, or that have one order. Names that are looked up or compared. Folders whose names do not correspond, as of two unpaired domains. Lists that are shuffled or handed to other code between the two lines."
source = "Python's documentation: os.listdir gives names in arbitrary order, and so do glob and pathlib."
*/
WITH pairs AS (
    SELECT rank, min(step) AS step, count(*) AS pairs, arg_min(detail, time_ns) AS first_
    FROM events WHERE event = 'listings-paired' GROUP BY rank
)
SELECT rank, step, (first_ ->> '$.apart')::BIGINT AS value, (first_ ->> '$.files')::BIGINT AS files,
    first_ ->> '$.place' AS place, first_ ->> '$.text' AS text,
    first_ ->> '$.first' AS first, first_ ->> '$.first_text' AS first_text,
    first_ ->> '$.second' AS second, first_ ->> '$.second_text' AS second_text,
    first_ ->> '$.one' AS one, first_ ->> '$.other' AS other,
    pairs - 1 AS others, if(others > 0, 'others', 'alone') AS more
FROM pairs
ORDER BY step, rank
