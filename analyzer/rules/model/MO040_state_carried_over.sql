/*
code = "MO040"
name = "state-carried-over"
severity = "error"
phase = "forward"
signal = "event"
message = "{module} ({class_name}) begins each batch with the state that the batch before has left. But the samples come in a mixed order: what it remembers is of other sequences."
fix = "Begin each batch with a new state: reset it before the forward, or call the recurrence without one. Keep states only where each row of a batch goes on with the row of the batch before."
seeks = ["events: event = 'state-carried-over'"]
explains = ["nothing-learnt"]
[needs]
tables = ["events", "modules", "batches"]
[doc]
what = "A recurrence was given, in batch after batch, the detached state that it had put out for the batch before. The loader shuffles, so that the sequences of a batch have nothing to do with those before."
why = "Outputs depend on which samples happened to be in the batch before. The noise is learnt, and an evaluation begins with a state of strangers."
not_this = "Batches in a fixed order, as truncated backpropagation through time reads a text. States of zeros or learnt ones. Scripts without a DataLoader, whose order is unknown."
source = "Equal numbers in the state that was put out and the one that was given; the indices of the sampler."
*/
SELECT e.rank, e.step, m.module, m.class_name, (e.detail ->> '$.batches')::BIGINT AS value
FROM events e JOIN modules m ON m.rank = e.rank AND m.module_id = e.module_id
WHERE e.event = 'state-carried-over'
  AND EXISTS (FROM batches b
      WHERE b.rank = e.rank AND b.phase = 'data'
        AND len(b.sample_indices) > 1 AND b.sample_indices <> list_sort(b.sample_indices))
QUALIFY row_number() OVER (PARTITION BY e.rank ORDER BY e.step, m.call_order) = 1
ORDER BY e.step, e.rank
