/*
code = "DA027"
name = "duplicate-rows-in-batch"
severity = "error"
phase = "data"
signal = "distinct_rows"
message = "Only {distinct} of the {size} rows of a batch differ, in {batches} of {looked} training batches examined from step {first} on. {what_}."
fix = "{remedy}."
seeks = ["batches: role = 'input' AND phase = 'data' AND batch_size >= $rows AND $few * distinct_rows <= batch_size"]
explains = ["nothing-learnt", "overfit", "loss-off-course"]
[say.list_]
named = "{name}"
unnamed = "a list"
[say.what_]
same_object = "All {entries} entries of {list_} are one and the same {kind}: each is overwritten by what is stored next"
holds_same_object = "All {entries} entries of {list_} hold one and the same {kind} at {held_at}: each is overwritten by what is stored next"
drawn_from_a_few = "The rows are new ones again and again, so there are more of them"
[say.line_]
known = " in {line} ({statement})"
[say.remedy]
begin_a_new_one = "Begin a new one for each entry instead of clearing the old one, or store a copy of it{line_}"
store_a_copy = "Store a copy: clone() of a tensor, copy() of an array{line_}"
look_at_the_buffer = "Look at what fills the buffer or makes the batches: store copies, not references to one object, and draw from all that is stored"
[params.few]
value = 4
doc = "Times that a row occurs in a batch, on average, where its different rows are few."
source = "convention: of this project, sampling with replacement from twice the batch's size repeats a row 1.3 times"
[params.rows]
value = 16
unit = "samples"
doc = "Samples of a batch that can be judged."
source = "convention: of this project, fewer are equal by chance"
[params.batches]
value = 20
unit = "batches"
doc = "Such batches where nothing is known of a buffer."
source = "convention: of this project, a buffer that fills is beyond a batch's size by then"
[params.most]
value = 0.9
doc = "Share of the batches, from the first such one on."
source = "convention: of this project, a few batches may be others"
[params.new]
value = 8
doc = "Times more different rows in all such batches than in any of them."
source = "convention: of this project, a small data set or a small space of states comes again in each batch"
[params.values]
value = 2
doc = "Different elements for each different row."
source = "convention: of this project, one-hot rows and a few categories have fewer"
[params.even]
value = 4
doc = "Times the average that the most frequent row may occur."
source = "arithmetic: draws from a few rows are about even; one row that fills the batch is an empty or final state"
[needs]
tables = ["batches"]
columns = ["batches.distinct_rows"]
[doc]
what = "Batches for training have few different rows. And a list or queue grows while all its entries are one object, or hold it at one place. The content of that object changes. As a warning also: in many batches each row occurs four times or more on average, at random. The rows change from batch to batch."
why = "What was stored is overwritten by what comes next: the buffer holds the newest entry many times and nothing else. A batch then says no more than its few different rows."
not_this = "Rows that are repeated on purpose, each equally often, or beside another input that differs. Buffers that are still small. Small data sets and small spaces of states, whose rows come again in each batch. Rows of few values, such as one-hot ones. Rows of fewer than four elements. Inputs that are made on a device, whose rows are not compared."
source = "Identity in memory; equality of rows, compared in full."
*/
-- shared
WITH inputs AS (
    SELECT b.*, b.batch_size >= $rows AND $few * b.distinct_rows <= b.batch_size AS few
    FROM batches b
    WHERE b.role = 'input' AND b.phase = 'data' AND b.distinct_rows IS NOT NULL
), repeated AS (
    SELECT i.rank, i.field, min(i.first) AS first, count(*) FILTER (few) AS batches, count(*) AS looked,
        arg_min(batch_size, step) FILTER (few) AS size,
        arg_min(distinct_rows, step) FILTER (few) AS distinct,
        -- the first batch may be drawn from a buffer of one entry
        coalesce(min(step) FILTER (few AND step > first), min(first)) AS later
    FROM (SELECT *, min(step) FILTER (few) OVER (PARTITION BY rank, field) AS first FROM inputs) i
    WHERE i.step >= i.first
    GROUP BY i.rank, i.field
)
-- detector: overwritten
SELECT e.rank, r.later AS step, r.field, r.distinct AS value, 'error' AS severity,
    r.distinct, r.size, r.batches,
    r.looked, r.first, (e.detail ->> '$.entries')::BIGINT AS entries,
    e.detail ->> '$.name' AS name, e.detail ->> '$.kind' AS kind, e.detail ->> '$.place' AS held_at,
    e.detail ->> '$.line' AS line, e.detail ->> '$.statement' AS statement,
    if(e.detail ->> '$.name' IS NULL, 'unnamed', 'named') AS list_,
    if(e.detail ->> '$.place' = '', 'same_object', 'holds_same_object') AS what_,
    CASE WHEN e.detail ->> '$.statement' IS NOT NULL THEN 'known' END AS line_,
    if(e.detail ->> '$.kind' IN ('list', 'deque', 'dict'), 'begin_a_new_one', 'store_a_copy') AS remedy
FROM events e JOIN repeated r USING (rank)
WHERE e.event = 'aliased-buffer'
QUALIFY row_number() OVER (PARTITION BY e.rank ORDER BY r.batches DESC, r.field) = 1
-- detector: drawn_from_a_few
WITH drawn AS (
    -- repeated at random, in nearly all batches from the first one on, and beside no other input that differs
    SELECT i.*, i.few AND i.distinct_values >= $values * i.distinct_rows
        AND i.most_repeated * i.distinct_rows <> i.batch_size
        AND i.most_repeated * i.distinct_rows <= $even * i.batch_size
        AND NOT EXISTS (FROM batches o
            WHERE o.rank = i.rank AND o.step = i.step AND o.microbatch = i.microbatch
              AND o.role = 'input' AND o.phase = 'data' AND o.seq <> i.seq AND o.batch_size = i.batch_size
              AND coalesce(o.distinct_rows > i.distinct_rows, true)) AS drawn
    FROM inputs i JOIN repeated r ON r.rank = i.rank AND r.field = i.field AND i.step >= r.first
    WHERE r.batches >= $batches
), often AS (
    SELECT rank, field, max(distinct_rows) AS most FROM drawn
    GROUP BY rank, field HAVING count(*) FILTER (drawn) >= greatest($batches, $most * count(*))
)
SELECT o.rank, r.first AS step, o.field, r.distinct AS value, 'warning' AS severity,
    r.distinct, r.size, r.batches,
    r.looked, r.first, 'drawn_from_a_few' AS what_, 'look_at_the_buffer' AS remedy
FROM often o JOIN repeated r USING (rank, field)
WHERE NOT EXISTS (FROM events e WHERE e.rank = o.rank AND e.event = 'aliased-buffer')
    AND (SELECT count(DISTINCT s.sample)
        FROM (SELECT unnest(i.sample_fingerprints) AS sample
            FROM drawn i WHERE i.rank = o.rank AND i.field = o.field AND i.drawn) s) >= $new * o.most
-- together
ORDER BY step, rank
