/*
code = "ME012"
name = "file-descriptor-leak"
severity = "error"
phase = "data"
signal = "open_files"
message = "The process holds more and more descriptors open: {first} at step {step}, {value} at step {last}, {rate} more each step{limit_}.{holder_}"
fix = "{remedy}"
seeks = ["steps: open_files >= $least OR open_files < 0"]
explains = ["python-exception", "dataloader-worker-died", "oom-host"]
[say.limit_]
reached = "; the limit of {limit} was reached"
unknown_limit_reached = "; the limit was reached"
comes = "; the limit of {limit} comes at about step {limit_step}"
[say.holder_]
holds_them = " What holds them is {holder}."
[say.remedy]
copy_what_workers_sent = """Keep a copy instead of what the worker sent: batch["index"].clone(), or .tolist(), before it is added; a tensor of a worker holds its descriptor as long as it lives. torch.multiprocessing.set_sharing_strategy('file_system') avoids the descriptors; `ulimit -n` only puts the end off."""
find_what_opens = "Find what opens a file, socket or tensor of a worker at each step and keeps it: close files (with open(...) as f), clone() tensors of workers before keeping them. torch.multiprocessing.set_sharing_strategy('file_system') avoids the descriptors; `ulimit -n` only puts the end off."
[params.least]
value = 64
unit = "descriptors"
doc = "Growth that must have been seen: loaders open and close a few for each worker."
source = "convention: of this project, a loader opens and closes a few descriptors for each worker"
[params.rate]
value = 0.1
unit = "descriptors per step"
doc = "Growth up to the last count: slower than this a limit of 1024 lasts ten thousand steps."
source = "arithmetic: the usual limit of 1024 lasts ten thousand steps then"
[params.near]
value = 0.5
doc = "Share of the limit from which it is an error, and below which advice."
source = "convention: of this project, half of the limit"
[params.near_most]
value = 0.95
unit = "of the most"
doc = "Share of the most descriptors that must still be open."
source = "convention: of this project, a twentieth may have been closed"
[params.looks]
value = 3
unit = "looks"
doc = "Counts of descriptors."
source = "convention: of this project, fewer have no trend"
[needs]
tables = ["steps"]
columns = ["steps.open_files"]
steps = 16
[doc]
what = "The descriptors of the process grow from count to count up to the last one, and are never fewer again. Or they have grown when the script raises that too many files are open."
why = "Each tensor that a DataLoader's worker sends is in a piece of shared memory. It holds a descriptor as long as the tensor lives. At the limit nothing can be opened any more."
not_this = "Descriptors that come and go with the workers of each epoch, a level that is reached and kept."
source = "Counts of /proc/self/fd, and the limit that the process has."
*/
WITH counts AS (
    SELECT rank, step, max(open_files) AS n FROM steps WHERE open_files IS NOT NULL GROUP BY rank, step
), falls AS (
    -- from the last time that there were clearly fewer than before
    SELECT rank, coalesce(max(step) FILTER (n < peak - $least), min(step)) AS since FROM (
        SELECT *, max(n) OVER (PARTITION BY rank ORDER BY step) AS peak FROM counts) GROUP BY rank
), grown AS (
    SELECT c.rank, f.since AS step, arg_min(n, c.step) AS first, arg_max(n, c.step) AS value, max(n) AS most,
        max(c.step) AS last, count(*) AS looks,
        median(n) FILTER (c.step <= f.since + (SELECT max(step) - f.since
            FROM counts m
            WHERE m.rank = c.rank) / 2) AS early,
        regr_slope(n, c.step) AS rate
    FROM counts c JOIN falls f ON f.rank = c.rank AND c.step >= f.since GROUP BY c.rank, f.since
), ended AS (
    SELECT coalesce(rank, 0) AS rank
    FROM exits
    WHERE regexp_matches(exception_message, '(?i)(too many open files|errno 24)')
), owners AS (
    SELECT rank, owner
    FROM memory_growing
    WHERE shared
      OR element <> 'tensor'
      AND regexp_matches(element, '(?i)(file|socket|reader|writer|image|memmap)')
    QUALIFY row_number() OVER (PARTITION BY rank ORDER BY holder IS NULL, shared DESC, length DESC) = 1
)
SELECT g.rank, g.step, g.last, g.first, g.value, round(g.rate, 2) AS rate,
    CASE
        WHEN g.rank NOT IN (SELECT rank FROM ended) THEN CASE WHEN r.open_files_limit > 0 THEN 'comes' END
        WHEN r.open_files_limit IS NULL THEN 'unknown_limit_reached'
        ELSE 'reached'
        END AS limit_,
    r.open_files_limit AS "limit", (g.last + (r.open_files_limit - g.value) / g.rate)::BIGINT AS limit_step,
    CASE WHEN o.owner IS NOT NULL THEN 'holds_them' END AS holder_, o.owner AS holder,
    CASE WHEN o.owner IS NULL THEN 'find_what_opens' ELSE 'copy_what_workers_sent' END AS remedy,
    CASE WHEN g.rank IN (SELECT rank FROM ended)
        OR g.value >= $near * r.open_files_limit THEN 'error' ELSE 'warning' END AS severity
FROM grown g LEFT JOIN ranks r ON r.rank = g.rank LEFT JOIN owners o ON o.rank = g.rank
WHERE g.value - g.first >= $least
  AND g.rate >= $rate
  AND g.value >= $near_most * g.most
  AND g.looks >= $looks
  AND g.value > g.early
ORDER BY g.step, g.rank
