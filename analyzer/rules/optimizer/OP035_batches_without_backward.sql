/*
code = "OP035"
name = "batches-without-backward"
severity = "error"
phase = "backward"
signal = "calls"
message = "Before each of {value} steps from step {step} on, {batches} batches of the loader went through the model. zero_grad was called after each, and backward once: on the loss of the last batch alone. The order of calls is {calls}: f forward, z zero_grad, b backward, s step."
fix = "Put backward() and optimizer.step() into the loop over the batches: they stand outside, behind it."
seeks = ["steps: stepped AND microbatches = 1 AND regexp_matches(calls, '^z*(f+z+){3,}f*(b[^bf]*s|$)')"]
explains = ["nothing-learnt", "zero-grad-missing"]
[params.fewest]
value = 3
unit = "batches"
doc = "Batches that went through the model before one backward."
source = "convention: of this project, two may be a pair that belongs together"
[params.steps_]
value = 3
unit = "steps"
doc = "Steps in which that is so."
source = "convention: of this project, one or two are a trial"
[params.most_]
value = 0.9
unit = "of the steps"
doc = "Share of the optimizer's steps in which that is so."
source = "convention: of this project, one of ten may end an epoch"
[needs]
tables = ["steps", "batches"]
columns = ["steps.calls"]
[doc]
what = "Several batches of a loader go through the model, and zero_grad is called between them. Backward and the optimizer's step come once, after the last. Typically their indentation is that of the loop."
why = "The training learns from one batch of each epoch, and throws the others away."
not_this = "Accumulation, which calls backward for each batch. Steps of an attack on one batch, which ask for gradients by torch.autograd.grad."
source = "The order of calls of each step; batch numbers of the loader."
*/
WITH shaped AS (
    SELECT rank, step, calls,
        microbatches = 1 AND regexp_matches(calls, '^z*(f+z+){3,}f*(b[^bf]*s|$)') AS alone
    FROM steps WHERE stepped AND calls IS NOT NULL
), seen AS (
    SELECT s.rank, s.step, any_value(s.calls) AS calls,
        count(DISTINCT (b.loader_id, b.epoch, b.batch_index)) AS batches
    FROM shaped s JOIN batches b ON b.rank = s.rank AND b.step = s.step AND b.phase = 'data'
    WHERE s.alone AND b.batch_index IS NOT NULL
    GROUP BY s.rank, s.step
), total AS (
    SELECT rank, count(*) AS steps_ FROM shaped GROUP BY rank
)
SELECT e.rank, min(e.step) AS step, count(*) AS value, median(e.batches)::BIGINT AS batches,
    arg_min(e.calls, e.step) AS calls
FROM seen e JOIN total t ON t.rank = e.rank
WHERE e.batches >= $fewest
GROUP BY e.rank
HAVING count(*) >= $steps_ AND count(*) >= $most_ * any_value(t.steps_)
ORDER BY step, e.rank
