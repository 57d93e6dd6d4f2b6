/*
code = "DA034"
name = "classes-numbered-apart"
severity = "error"
phase = "eval"
signal = "event"
message = "Training and evaluation number the same {what_} differently: in {attribute} of {class_name}, '{name}' is {trained_number} in training and {number} in evaluation. That holds for {moved} of {shared} names in both. Field {field} holds these numbers.{also_}"
fix = "Make the numbering once, of the training data, and give it to every data set. Save it beside the weights. A subclass of ImageFolder does this in find_classes."
seeks = ["events: event = 'numbered-apart'"]
explains = ["overfit"]
[say.what_]
target = "classes"
input = "entries"
[say.also_]
another = " Another evaluation has the numbers of the training: if the script translates these here, ignore this advice."
[params.least]
value = 16
unit = "elements"
doc = "Numbers of the evaluation that have been seen."
source = "convention: of this project"
[needs]
tables = ["events", "batches", "tensor_stats", "tensors"]
[doc]
what = "The data sets of a training and of an evaluation are of one class. Both number names from 0, and a name in both has two numbers. The highest number of each occurs in its batches, in the same field, which the training uses. As a warning: another evaluation has the numbers of the training."
why = "The model answers with the numbers of the training. An evaluation that numbers its own split compares them with other classes, so that right answers count as wrong ones."
not_this = "Several training sets with numbers of their own, as of tasks or episodes. A data set with a target_transform. Lists of names that no method asks for places. Scripts that look names up outside of the data set, as to translate numbers. Evaluations of embeddings, without an output for each class. Evaluations without a DataLoader."
source = "Comparison of the numberings, and of their highest numbers with the batches. torchvision's ImageFolder numbers the folders that it finds."
*/
WITH apart AS (
    SELECT rank, time_ns, detail ->> '$.class' AS class_name, detail ->> '$.attribute' AS attribute,
        (detail ->> '$.loader_id')::INT AS loader_id, from_json(detail -> '$.others', '["INT"]') AS others,
        (detail ->> '$.numbering')::INT AS numbering,
        (detail ->> '$.other_numbering')::INT AS other_numbering, detail ->> '$.name' AS name,
        (detail ->> '$.number')::INT AS number,
        (detail ->> '$.other_number')::INT AS other_number, (detail ->> '$.entries')::INT AS entries,
        (detail ->> '$.other_entries')::INT AS other_entries, (detail ->> '$.shared')::INT AS shared,
        (detail ->> '$.moved')::INT AS moved
    FROM events
    WHERE event = 'numbered-apart' AND (detail ->> '$.used')::BOOL AND NOT (detail ->> '$.looked_up')::BOOL
), both_ways AS (
    SELECT * EXCLUDE (others), unnest(others) AS other_id FROM apart
    UNION ALL
    SELECT rank, time_ns, class_name, attribute, unnest(others), other_numbering, numbering, name,
        other_number, number, other_entries, entries, shared, moved, loader_id
    FROM apart
), numbered AS (
    SELECT DISTINCT rank, class_name, attribute, loader_id, numbering FROM both_ways
), fields AS (
    SELECT b.rank, b.loader_id, b.phase, b.field, max(s.max) AS highest, sum(s.numel) AS seen,
        min((b.step, b.seq)) AS first, arg_min(s.numel, (b.step, b.seq)) AS first_numel,
        max(coalesce(b.classes, l.classes)) AS classes, bool_or(b.role = 'input') AS into_model,
        bool_or(b.role <> 'field') OR bool_or(l.rank IS NOT NULL) AS used
    FROM batches b
    JOIN tensor_stats s ON s.rank = b.rank AND s.step = b.step AND s.seq = b.seq
    -- what was copied to a device before the loss has the same counts there
    LEFT JOIN (SELECT DISTINCT rank, step, label_counts, classes FROM batches
        WHERE role = 'target' AND loader_id IS NULL AND label_counts IS NOT NULL) l
      ON l.rank = b.rank AND l.step = b.step AND l.label_counts = b.label_counts
    WHERE (b.rank, b.loader_id) IN (SELECT (rank, loader_id) FROM numbered)
      AND (b.dtype LIKE 'int%' OR b.dtype LIKE 'uint%')
    GROUP BY ALL
), training AS (
    SELECT DISTINCT rank, loader_id FROM batches
    WHERE phase = 'data' AND role <> 'field' AND loader_id IS NOT NULL
), evaluated AS (
    SELECT DISTINCT n.rank, n.class_name, n.attribute, n.numbering
    FROM numbered n
    JOIN fields f ON f.rank = n.rank AND f.loader_id = n.loader_id AND f.phase = 'eval'
    WHERE (n.rank, n.loader_id) NOT IN (SELECT (rank, loader_id) FROM training)
)
SELECT e.rank, e.first[1] AS step, e.first[2] AS seq, e.field, a.class_name, a.attribute, a.name, a.number,
    a.other_number AS trained_number, a.shared, a.moved, a.moved AS value,
    if(t.into_model, 'input', 'target') AS what_,
    if(x.rank IS NULL, NULL, 'another') AS also_, if(x.rank IS NULL, 'error', 'warning') AS severity
FROM both_ways a
JOIN fields e ON e.rank = a.rank AND e.loader_id = a.loader_id AND e.phase = 'eval'
JOIN fields t ON t.rank = a.rank AND t.loader_id = a.other_id AND t.phase = 'data' AND t.field = e.field
LEFT JOIN evaluated x ON x.rank = a.rank AND x.class_name = a.class_name
    AND x.attribute = a.attribute AND x.numbering = a.other_numbering
WHERE t.used AND e.seen >= $least
  -- a split that numbers its own names has each number: its highest occurs
  AND e.highest = a.entries - 1 AND t.highest = a.other_entries - 1
  -- the evaluation has an output for each class: it does not compare embeddings
  AND (t.into_model OR EXISTS (FROM tensor_stats o
      JOIN tensors m ON m.rank = o.rank AND m.tensor_id = o.tensor_id AND m.kind = 'activation'
      WHERE o.rank = e.rank AND o.step = e.first[1] AND o.seq > e.first[2] AND o.phase = 'eval'
        AND o.numel = t.classes * e.first_numel))
  AND (a.rank, a.loader_id) NOT IN (SELECT (rank, loader_id) FROM training)
  -- tasks and episodes: training sets with numbers of their own
  AND NOT EXISTS (FROM numbered n JOIN training r ON r.rank = n.rank AND r.loader_id = n.loader_id
      WHERE n.rank = a.rank AND n.class_name = a.class_name AND n.attribute = a.attribute
        AND n.numbering <> a.other_numbering)
QUALIFY row_number() OVER (PARTITION BY e.rank, a.class_name, a.attribute ORDER BY e.first) = 1
ORDER BY step, e.rank
