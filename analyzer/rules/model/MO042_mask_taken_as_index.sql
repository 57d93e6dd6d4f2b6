/*
code = "MO042"
name = "mask-taken-as-index"
severity = "error"
phase = "loss"
signal = "operators"
message = "At step {step} the loss indexes {rows} rows with {rows} zeros and ones of integers. That takes row 0 {zeros} times and row 1 {ones} times, and no other."
fix = "Make a mask of it: x[flags.bool()], or x[flags == 1]. Integers are places, and only a boolean tensor chooses rows."
seeks = ["operators: op = 'Index' AND saved = 'flags'"]
explains = ["plateau", "nothing-learnt", "overfit"]
[params.looks]
value = 3
unit = "looks"
doc = "Looks at the loss that must show it."
source = "convention: of this project, a single look may be of a batch unlike the others"
[needs]
tables = ["operators"]
[doc]
what = "In the graph of the loss an index of integers is as long as what it is taken from. It holds zeros and ones and nothing else, in each of the steps that were looked at."
why = "A row of a mask says whether, an index says which. So the loss is made of the first two rows of each batch, whatever the others hold, and falls without learning from them."
not_this = "Boolean masks. Indices into a table of another length, such as the weights of two classes. Fewer than eight rows."
source = "PyTorch's documentation: advanced indexing, integers are places and booleans choose. Novartis/torchsurv #141."
*/
WITH seen AS (
    SELECT rank, min(step) AS step, count(DISTINCT step) AS looks, arg_min(numel, step) AS rows,
        arg_min(zero_count, step) AS zeros
    FROM operators
    WHERE trigger = 'risk' AND op = 'Index' AND saved = 'flags'
    GROUP BY rank
)
SELECT rank, step, rows AS value, rows, zeros, rows - zeros AS ones
FROM seen
WHERE looks >= $looks
ORDER BY step, rank
