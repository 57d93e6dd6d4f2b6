/*
code = "DA028"
name = "class-never-target"
severity = "error"
phase = "data"
signal = "ends_ignored"
message = "{what_}"
fix = "{remedy_}"
seeks = [
    """batches: role = 'target' AND phase <> 'eval' AND (padded_sequences > 0 AND ends_ignored > 0 \
        OR ignored_between > 0)""",
]
explains = ["underfit"]
[say.what_]
ends = "Token {token} ends {ends} of the {sequences} examined padded sequences, and the loss ignores it in each. Padding is the same token, and every label with it is ignored. In {looks} steps it was never a target, so the model does not learn where a text ends."
inside = "The loss ignores token {token}, which is a token like any: in {looks} steps {value:.0f} targets in the middle of their sequences have its number and do not count. The model is given this token and never learns to predict it."
[say.remedy_]
ends = "Give padding a token of its own. Or ignore labels by the attention mask, not by the token: labels[attention_mask == 0] = -100. DataCollatorForLanguageModeling of transformers ignores every pad_token: pad_token = eos_token hides the ends from it."
inside = "Leave ignore_index out where no target is padding, or give padding a number that no token has, such as -100."
[params.inside]
value = 16
unit = "targets"
doc = "Ignored targets between counted ones."
source = "convention: of this project, fewer may be a separator"
[params.least]
value = 2
unit = "steps"
doc = "Steps in which it is so."
source = "convention: of this project, a second batch rules out an odd one"
[params.sequences]
value = 16
unit = "sequences"
doc = "Padded sequences that were looked at."
source = "convention: of this project, as many end in the same token by no chance"
[params.most]
value = 0.9
doc = "Share of the padded sequences that end in the token."
source = "convention: of this project, a few texts may be cut off"
[needs]
tables = ["batches"]
[doc]
what = "A loss of the next token in which sequences end, under the mask, in the token that padding has. The loss ignores this token as it ignores padding, and never has it as a target. Or the loss ignores a number that stands in the middle of sequences and is given to the model there."
why = "A language model learns to stop from the token that ends a text. Where that is never a target, it goes on writing until it is cut off."
not_this = "Padding with a token of its own. Texts that have no end token. Prompts or turns that are ignored on purpose, where other tokens behind the first target are ignored too. Batches without a mask or without padding. A class of a classifier that never occurs: spare classes are common, and no input holds one."
source = "Equality of integers; transformers' documentation of DataCollatorForLanguageModeling: labels of padding tokens are -100."
*/
-- detector: ends
SELECT rank, min(step) AS step, arg_min(seq, step) AS seq, arg_min(field, step) AS field,
    any_value(padding_token) AS token, sum(ends_ignored) AS ends, sum(padded_sequences) AS sequences,
    count(DISTINCT step) AS looks, sum(ends_ignored) AS value, 'ends' AS what_, 'ends' AS remedy_
FROM batches
WHERE role = 'target' AND phase <> 'eval' AND padded_sequences > 0
GROUP BY rank
HAVING count(DISTINCT step) >= $least
    AND count(DISTINCT padding_token) = 1
    AND sum(padded_sequences) >= $sequences
    AND sum(ends_ignored) >= $most * sum(padded_sequences)
    AND sum(padding_targets) = 0
-- detector: inside
SELECT rank, min(step) AS step, arg_min(seq, step) AS seq, arg_min(field, step) AS field,
    sum(ignored_between) AS value, count(DISTINCT step) AS looks, 'inside' AS what_, 'inside' AS remedy_,
    any_value(ignore_index) AS token
FROM batches
WHERE role = 'target' AND phase <> 'eval' AND ignored_between > 0
GROUP BY rank
HAVING count(DISTINCT step) >= $least AND sum(ignored_between) >= $inside
-- together
QUALIFY row_number() OVER (PARTITION BY rank ORDER BY step) = 1
ORDER BY step, rank
