/*
code = "MO016"
name = "broadcast-loss"
severity = "error"
phase = "loss"
signal = "shape"
message = "At step {step} the {stretched_} {before} was stretched to {shape} against {against_}{where_}: every sample {meets_}."
fix = "{remedy}"
seeks = [
    [
        "operators: op = 'Broadcast'",
        "events: event = 'warning'",
    ],
]
explains = ["overfit", "nothing-learnt", "representation-collapse", "shuffled-labels", "input-dtype-or-shape-change", "loss-off-course"]
[say.stretched_]
prediction = "prediction"
target = "target"
weighted = "row"
column = "column"
[say.against_]
prediction = "the target"
target = "the prediction"
weighted = "weights such as advantages, which are a column"
column = "weights such as advantages, which are a row"
[say.meets_]
prediction = "is compared with every target"
target = "is compared with every target"
weighted = "is multiplied by the weights of all samples"
column = "is multiplied by the weights of all samples"
columns = "has one prediction, and is compared with several numbers"
[say.remedy]
prediction = "Give both the same shape: prediction.squeeze(-1), or target.unsqueeze(-1)."
target = "Give both the same shape: prediction.squeeze(-1), or target.unsqueeze(-1)."
columns = "Give both the same shape: sum over the columns of the target, as over the parts of a log-probability, or select one."
weighted = "Give rows and weights the same shape, for example values.squeeze(-1) before they are subtracted or multiplied."
column = "Give both the same shape, for example log_prob.squeeze(-1), or advantages.unsqueeze(-1)."
[say.where_]
warned = ", as torch warned"
[needs]
tables = ["steps"]
[doc]
what = "The operands (N, 1) and (N) of a subtraction in the loss broadcast to (N, N), or N numbers meet weights such as advantages that are a column, or broadcast before. Or a column of them meets N weights, and the product is averaged. Or maps (N, H, W) meet targets (N, H, W, 1) and broadcast to (N, N, H, W). The graph shows it, or torch's own warning, which an evaluation gives as well. Or torch warns of predictions (N, 1) and targets (N, C)."
why = "The best answer is then the mean of all targets: the loss ends at their variance."
not_this = "Pairwise losses between two stretched tensors of the model, differences of all pairs of one row, other broadcasting."
source = "Shapes of the operands."
*/
-- detector: in_the_graph
SELECT rank, step, microbatch, seq, regexp_extract(saved, '\[.*') AS before, shape,
    CASE WHEN saved LIKE 'weighted%, 1]' THEN 'column' WHEN saved LIKE 'weighted%' THEN 'weighted'
        ELSE 'prediction' END AS stretched_,
    stretched_ AS against_, stretched_ AS meets_, stretched_ AS remedy, NULL AS where_
FROM operators WHERE op = 'Broadcast'
-- detector: by_its_warning
WITH warned AS (
    SELECT rank, step, phase,
        regexp_extract(message, 'target size \(torch.Size\(\[([0-9]+)(, 1)?\]\)\)', 1) AS target,
        regexp_extract(message, 'input size \(torch.Size\(\[([0-9]+)(, 1)?\]\)\)', 1) AS given,
        regexp_matches(message, 'input size \(torch.Size\(\[[0-9]+, 1\]') AS column_
    FROM events
    WHERE event = 'warning' AND message LIKE '%Using a target size (torch.Size(%different to the input size%'
)
SELECT rank, step, NULL AS microbatch, NULL AS seq,
    [given::BIGINT, 1]::VARCHAR AS before, [given::BIGINT, target::BIGINT] AS shape,
    if(column_, 'prediction', 'target') AS stretched_, stretched_ AS against_, stretched_ AS meets_,
    stretched_ AS remedy, 'warned' AS where_
FROM warned
WHERE target = given AND target <> '' AND target <> '1'
  AND NOT EXISTS (FROM operators o
      WHERE o.rank = warned.rank AND o.op = 'Broadcast' AND o.step <= warned.step)
QUALIFY row_number() OVER (PARTITION BY rank ORDER BY step) = 1
-- detector: columns_by_its_warning
WITH warned AS (
    SELECT rank, step,
        regexp_extract(message, 'target size \(torch.Size\(\[([0-9]+), [0-9]+\]', 1) AS target,
        regexp_extract(message, 'target size \(torch.Size\(\[[0-9]+, ([0-9]+)\]', 1) AS columns,
        regexp_extract(message, 'input size \(torch.Size\(\[([0-9]+), 1\]', 1) AS given
    FROM events
    WHERE event = 'warning' AND message LIKE '%Using a target size (torch.Size(%different to the input size%'
)
SELECT rank, step, NULL AS microbatch, NULL AS seq,
    [given::BIGINT, 1]::VARCHAR AS before, [given::BIGINT, columns::BIGINT] AS shape,
    'prediction' AS stretched_, stretched_ AS against_, 'columns' AS meets_, 'columns' AS remedy,
    'warned' AS where_
FROM warned
WHERE target = given AND target <> '' AND target <> '1' AND columns NOT IN ('', '1')
QUALIFY row_number() OVER (PARTITION BY rank ORDER BY step) = 1
-- together
ORDER BY step, rank, seq
