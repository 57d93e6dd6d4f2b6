/*
code = "OP036"
name = "accumulation-out-of-phase"
severity = "warning"
phase = "optimizer"
signal = "microbatches"
message = "The optimizer steps after batch 0, {every}, {twice} and so on of the data, counted from 0. The first update is made of one batch instead of {every}{counts_}{joined_}."
fix = "Step where a group of batches is full, and at the end of the data. Write if (i + 1) % {every} == 0 or i + 1 == len(loader)."
[say.counts_]
as_one_of_many = ", and its loss counts 1/{every}"
[say.joined_]
with_the_next_pass = "; {joined} times the last batches of a pass are joined with the first of the next, to a group of another size"
[params.least]
value = 3
unit = "steps"
doc = "Steps after the first, each of one whole group."
source = "convention: of this project, three groups of one size are no chance"
[params.same]
value = 0.01
unit = "relative"
doc = "Distance of the first loss's weight from that of one of many."
source = "convention: of this project, rounding, and scales that are divided out"
[params.twice]
value = 2
unit = "times"
doc = "Groups over two passes that show the order where no weight is known."
source = "convention: of this project, one may be a pass that was broken off"
[needs]
tables = ["steps", "batches"]
columns = ["steps.microbatches", "batches.batch_index"]
[doc]
what = "The first step of a training takes the loader's first batch alone. Each of the next ones takes k batches, to the next whole multiple of k. The loss of the first batch counts 1/k, as that of all others. Or the last batches of two passes were joined with the first of the next."
why = "The first update is k times too small, or for an adaptive optimizer made of one batch. What is left at the end of the data is carried over to the next pass. At the end of the training it is lost."
not_this = "A small group at the end of the data. An accumulation that grows from one batch. Groups of varying size. A first batch that counts in full. Several optimizers."
source = "Arithmetic of the remainder: i % k is zero at 0, before a group is full."
*/
WITH groups AS (
    SELECT rank, step, count(DISTINCT (loader_id, epoch, batch_index)) AS batches,
        count(DISTINCT loader_id) AS loaders, min(epoch) AS first_pass, max(epoch) AS pass,
        max({'pass': epoch, 'place': batch_index}).place AS last_index
    FROM batches
    WHERE phase <> 'eval' AND loader_id IS NOT NULL AND batch_index IS NOT NULL
    GROUP BY rank, step
), weights AS (
    SELECT b.rank, b.step, max(abs(b.loss_gradient)) / coalesce(any_value(s.loss_scale), 1) AS weight
    FROM batches b JOIN steps s ON s.rank = b.rank AND s.step = b.step
    WHERE b.role = 'target' AND b.phase <> 'eval' AND b.reduction = 'mean' AND b.loss_gradient IS NOT NULL
    GROUP BY b.rank, b.step
), taken AS (
    SELECT s.rank, s.step, s.microbatches, g.first_pass, g.pass, g.last_index, w.weight,
        s.step - min(s.step) OVER (PARTITION BY s.rank) AS n
    FROM steps s
    JOIN groups g ON g.rank = s.rank AND g.step = s.step
    LEFT JOIN weights w ON w.rank = s.rank AND w.step = s.step
    WHERE s.completed
      AND s.microbatches = g.batches
      AND g.loaders = 1
      AND s.rank IN (SELECT rank FROM param_groups GROUP BY rank HAVING count(DISTINCT optimizer_id) = 1)
), begun AS (
    -- the run's first steps: one batch, and then groups that end at whole multiples of their size
    SELECT f.rank, f.step, f.weight, max(t.microbatches) AS every, max(t.weight) AS later_weight
    FROM taken f
    JOIN taken t ON t.rank = f.rank AND t.n BETWEEN 1 AND $least AND t.first_pass = f.pass
    WHERE f.n = 0 AND f.microbatches = 1 AND f.last_index = 0
      AND f.step = (SELECT min(s.step) FROM steps s WHERE s.rank = f.rank)
    GROUP BY f.rank, f.step, f.weight
    HAVING count(*) = $least
       AND min(t.microbatches) = max(t.microbatches)
       AND max(t.microbatches) >= 2
       AND bool_and(t.last_index = t.n * t.microbatches)
), joined AS (
    SELECT b.rank, count(*) AS joined FROM begun b
    JOIN taken t ON t.rank = b.rank AND t.pass = t.first_pass + 1
        AND t.last_index = 0
        AND t.microbatches <> b.every
    GROUP BY b.rank
)
SELECT b.rank, b.step, b.every, b.every AS value, 2 * b.every AS twice, j.joined,
    CASE WHEN abs(b.weight * b.every - 1) <= $same THEN 'as_one_of_many' END AS counts_,
    CASE WHEN j.joined > 0 THEN 'with_the_next_pass' END AS joined_
FROM begun b LEFT JOIN joined j ON j.rank = b.rank
WHERE CASE WHEN b.weight IS NULL THEN j.joined >= $twice
    ELSE abs(b.weight * b.every - 1) <= $same AND abs(b.later_weight * b.every - 1) <= $same END
ORDER BY step, b.rank
