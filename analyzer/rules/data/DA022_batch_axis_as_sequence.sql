/*
code = "DA022"
name = "batch-axis-as-sequence"
severity = "error"
phase = "forward"
signal = "event"
message = "{what_} in {place_} goes along the axis of the {samples} samples, and takes the axis of size {other} for the batch. Samples influence each other, and the places of one sample do not."
fix = "{remedy}"
seeks = ["events: event = 'axis-of-samples'"]
explains = ["nothing-learnt", "overfit"]
[say.what_]
softmax = "A softmax over axis 0"
recurrence = "The recurrence"
attention = "Attention"
positions = "The positional encoding"
[say.place_]
root = "the model ({class_name})"
module = "{module} ({class_name})"
[say.remedy]
softmax = "Let the softmax go along the places of one sample: dim=-1 instead of dim=0."
samples_first = "Give it the samples first, as batch_first=True says: x.transpose(0, 1) before the call."
samples_second = "Build it with batch_first=True, or exchange the axes before and after the call: x.transpose(0, 1)."
positions = "Give the encoding the shape (1, length, features), and add pe[:, :x.size(1)]: a sample needs the vectors of its own places."
[needs]
tables = ["events", "batches"]
[doc]
what = "The sequence of nn.MultiheadAttention, or of a recurrence, is the samples of a shuffled loader. An axis of places within one sample is where the batch belongs. Or a softmax goes along the samples, beside the places of each. Or a positional encoding adds one place's vector to each whole sample. Axes are followed through the autograd graph from the operator that makes them."
why = "batch_first is False by default: what is given with the samples first is read as one sequence of samples. Results depend on which samples share a batch."
not_this = "Inputs in the order that batch_first says. Attention between samples on purpose (one sequence of all samples, with nothing in the place of the batch). Sizes that are equal, so that nothing distinguishes the axes. Loaders in a fixed order, whose samples may be one sequence."
source = "The shape that a module documents for its input, and the number of samples that the loader's sampler says."
*/
WITH found AS (
    SELECT e.rank, e.step, m.module, m.class_name, e.detail ->> '$.operator' AS operator,
        (e.detail ->> '$.samples')::BIGINT AS samples, (e.detail ->> '$.other')::BIGINT AS other,
        (m.settings ->> '$.batch_first')::BOOLEAN AS batch_first, (e.detail ->> '$.axis')::BIGINT AS axis
    FROM events e JOIN modules m ON m.rank = e.rank AND m.module_id = e.module_id
    WHERE e.event = 'axis-of-samples'
)
SELECT f.rank, f.step, f.module, f.class_name, f.samples AS value, f.samples, f.other,
    CASE WHEN f.axis = 0 THEN 'softmax' WHEN f.operator LIKE '%Rnn%' THEN 'recurrence'
        WHEN f.operator = 'Positions' THEN 'positions' ELSE 'attention' END AS what_,
    if(f.module = '', 'root', 'module') AS place_,
    CASE WHEN what_ IN ('softmax', 'positions') THEN what_
        WHEN f.batch_first THEN 'samples_first' ELSE 'samples_second' END AS remedy
FROM found f
WHERE f.axis = 0
  OR f.operator = 'Positions'
  OR f.class_name IN ('MultiheadAttention', 'LSTM', 'GRU', 'RNN')
  -- samples in a mixed order are no sequence
  AND EXISTS (FROM batches b
      WHERE b.rank = f.rank
        AND b.phase = 'data'
        AND len(b.sample_indices) > 1
        AND b.sample_indices <> list_sort(b.sample_indices))
QUALIFY row_number() OVER (PARTITION BY f.rank, f.module ORDER BY f.step) = 1
ORDER BY f.step, f.rank
