/*
code = "DA016"
name = "replayed-after-resume"
severity = "error"
phase = "data"
signal = "fingerprint"
message = "After the resume at step {step} the batches from step {first} on come again in the same order ({count} compared). The loaded state is that of step {position}: it had already been trained on them."
fix = "Save the state of the sampler or loader (epoch and position, or torchdata's StatefulDataLoader). Skip what was seen: itertools.islice(loader, seen, None)."
seeks = ["checkpoints: action = 'optimizer' AND step > 0"]
explains = ["duplicate-batches", "repeated-batch-order", "overfit"]
[params.batches]
value = 3
unit = "batches"
doc = "Batches that must be the same, in the same order."
source = "arithmetic: with n batches in an epoch, three in the same order come by chance once in n^3 times"
[params.share]
value = 0.6
doc = "Share of the samples below which a pass was broken off, where the length of the loader is not known. A sampler over a part of the data draws more of them."
source = "convention: of this project, clearly more than half of the samples is a pass"
[params.same_place]
value = 10
unit = "batches"
doc = "Batches up to which a position counts as the beginning of the order."
source = "convention: of this project, the first ten"
[params.other_places]
value = 9
unit = "batches"
doc = "The same after a batch."
source = "arithmetic: with it ten"
[needs]
tables = ["checkpoints", "batches", "steps"]
[doc]
what = "Optimizer state is loaded in the middle of an epoch. The batches that follow are those of the epoch's beginning. The loaded state has already been trained on them."
why = "The beginning of the data is trained on twice and, with every further resume, again. The end is seen more rarely."
not_this = "The batches between the checkpoint and the crash, which are to be seen again. A new epoch in the same order. Data without an order."
source = "Equality of fingerprints."
*/
WITH resumes AS (
    SELECT rank, step AS r, max(state_step) AS state_step
    FROM checkpoints
    WHERE action = 'optimizer' AND step > 0
    GROUP BY rank, step
), seen AS (
    -- what a model was given before what a loader handed out: a job that ends drops a batch
    SELECT rank, step, arg_min(fingerprint, n) AS fp, arg_min(epoch, n) AS epoch,
        arg_min(batch_index, n) AS place, arg_min(loader_id, n) AS loader_id,
        arg_min(loader_batches, n) AS loader_batches
    FROM (SELECT *, row_number() OVER (PARTITION BY rank, step ORDER BY role = 'field', seq) AS n
        FROM batches
        WHERE phase <> 'eval' AND role IN ('input', 'field') AND fingerprint IS NOT NULL)
    GROUP BY rank, step
), counted AS (
    -- where the loaded state stood, in steps of this recording; the step of the resume itself where no
    -- counter tells
    SELECT q.rank, q.r,
        coalesce((SELECT min(g.step) + 1
            FROM param_groups g
            WHERE g.rank = q.rank AND g.step < q.r AND g.state_step = q.state_step),
        (SELECT max(c.step)
            FROM checkpoints c
            WHERE c.rank = q.rank AND c.step <= q.r AND c.action = 'saved'),
            q.r) AS position
    FROM resumes q
), pairs AS (
    SELECT c.rank, c.r, c.position, a.step - c.r AS offset_, b.step - (a.step - c.r) AS first
    FROM counted c
    JOIN seen a ON a.rank = c.rank AND a.step BETWEEN c.r AND c.r + $other_places
    JOIN seen b ON b.rank = c.rank AND b.step < c.r AND b.fp = a.fp
), matched AS (
    SELECT rank, r, position, first, count(*) AS count
    FROM pairs
    WHERE first >= 0 AND first < position AND offset_ < $same_place
    GROUP BY ALL
    HAVING count(*) >= $batches AND bool_or(offset_ = 0) AND bool_or(offset_ = 1) AND bool_or(offset_ = 2)
), longest AS (
    SELECT rank, loader_id, max(batch_index) AS last_place FROM batches WHERE phase <> 'eval' GROUP BY ALL
), covered AS (
    -- what a pass over the data has drawn, where each sample comes once and no other rank draws the rest
    SELECT rank, loader_id, epoch, count(DISTINCT i) AS drawn, max(i) + 1 AS samples
    FROM (SELECT rank, loader_id, epoch, unnest(sample_indices) AS i
        FROM batches
        WHERE sample_indices IS NOT NULL AND rank IN (SELECT rank FROM resumes))
    WHERE (SELECT count(DISTINCT rank) FROM steps) = 1 GROUP BY ALL HAVING count(*) = count(DISTINCT i)
)
SELECT m.rank, m.r AS step, m.first, m.position, m.count, m.count AS value
FROM matched m
JOIN seen f ON f.rank = m.rank AND f.step = m.first
JOIN seen l ON l.rank = m.rank
    AND l.step = (SELECT max(b.step) FROM seen b WHERE b.rank = m.rank AND b.step < m.position)
LEFT JOIN longest g ON g.rank = m.rank AND g.loader_id = l.loader_id
-- a job that was stopped leaves its loader in mid-epoch; where the epoch ends, the loader of the resume tells
-- if it goes further
LEFT JOIN seen a ON a.rank = m.rank AND a.step = m.r
LEFT JOIN longest h ON h.rank = m.rank AND h.loader_id = a.loader_id
LEFT JOIN covered v ON v.rank = m.rank AND v.loader_id = l.loader_id AND v.epoch = l.epoch
WHERE CASE WHEN l.epoch IS NOT NULL THEN f.epoch = l.epoch
    AND f.loader_id = l.loader_id
    -- where the last step went unwatched, its place is known if each step takes one batch
    AND (l.step = m.position - 1 OR l.place - f.place = l.step - f.step)
    AND (l.place + m.position - 1 - l.step
            < coalesce(l.loader_batches - 1, greatest(g.last_place, h.last_place))
        OR l.loader_batches IS NULL
        AND v.drawn < $share * v.samples)
    -- without a loader: nothing came twice before the resume
    ELSE (SELECT count(*) = count(DISTINCT s.fp) FROM seen s WHERE s.rank = m.rank AND s.step < m.r) END
QUALIFY row_number() OVER (PARTITION BY m.rank, m.r ORDER BY m.first) = 1
ORDER BY step, m.rank
