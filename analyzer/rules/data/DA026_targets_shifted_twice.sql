/*
code = "DA026"
name = "targets-shifted-twice"
severity = "error"
phase = "data"
signal = "later"
message = "Each target of the loss is the token two places later, in all {looks} examined steps. The first is step {step}, with {counted} targets. The labels are shifted where they are made, and again in the model or its loss."
fix = "Shift once: give a model that shifts by itself, as those of transformers do, labels equal to input_ids. Or keep the shift in the data and compute the loss without another."
seeks = ["target_lookups: later = 2"]
explains = ["nothing-learnt", "divergence"]
[params.least]
value = 2
unit = "steps"
doc = "Steps in which it is so."
source = "arithmetic: sixteen or more tokens that are equal two places later are no chance. A second step rules out a sequence that repeats itself"
[needs]
tables = ["target_lookups"]
[doc]
what = "Each counted target of a classification loss is the token of the input two places later. This holds in all steps that were looked at. No loss has the next token as its target."
why = "The model learns to skip a token. Its text afterwards lacks every other word, and its loss is that of a harder task."
not_this = "Several heads, one of which predicts the next token; sequences that repeat themselves."
source = "Equality of integers; transformers' documentation: labels are shifted inside the model."
*/
WITH looks AS (
    SELECT rank, step, max(later) AS later, bool_or(later = 1 OR equal = counted) AS nearer,
        max(counted) FILTER (later = 2) AS counted
    FROM target_lookups GROUP BY rank, step
)
SELECT rank, min(step) AS step, count(*) AS looks, arg_min(counted, step) AS counted, count(*) AS value
FROM looks
GROUP BY rank
HAVING count(*) >= $least AND bool_and(later = 2) AND NOT coalesce(bool_or(nearer), false)
ORDER BY step, rank
