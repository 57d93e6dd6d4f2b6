/*
code = "DA023"
name = "targets-visible-in-input"
severity = "error"
phase = "loss"
signal = "equal"
message = "The model is given the very targets that it is to predict: in each of {looks} steps that were looked at from step {step} on, all {counted} targets that count are the tokens at their own places in what {place} looks up, {proof}."
fix = "In a model that predicts the next token, compare what comes out at a place with the token after it: logits[:, :-1] with tokens[:, 1:], or give a beginning token in front. In a masked one, give the model the tokens in which the targets are masked, not the original ones."
explains = ["overfit", "plateau"]
[params.looks]
value = 4
unit = "looks"
doc = "Backward passes that were looked at, all of which must show it."
source = "convention: of this project, fewer passes may show it by chance"
[params.nearly]
value = 0.9
doc = "Share of the places of targets to which a gradient comes back, from which they are not masked."
source = "convention: of this project, ten percent are left for padding and for the first position, which sees nothing"
[needs]
tables = ["target_lookups", "steps"]
[doc]
what = "Every target of a classification loss that counts is the token at its own place in the lookup of an embedding. All attention behind the loss looks back only, and a gradient comes back to the last place: nothing but the prediction there can have brought it, so each prediction sees its own target. Or, as a warning: other targets are ignored, tokens of several values stand at their places, and gradients come back to the places of the targets, which a mask should hide."
why = "The loss falls to almost nothing, because to copy is enough, and the model has learnt nothing that it can use."
not_this = "Targets that are shifted in the loss or in the data; models that shift or mask behind the embedding (no gradient comes back there); encoders with a decoder that is given shifted tokens; autoencoders, which are to see what they give back, also where padding is ignored; recurrent models, whose last place is reached through their state; labels that serve as a condition for a whole sample."
source = "Equality of integers, and the autograd graph."
*/
WITH looks AS (
    SELECT rank, step, microbatch, any_value(module_id) AS module_id, sum(counted) AS counted,
        bool_and(equal = counted AND counted > 0 AND varied) AS equal,
        bool_and(coalesce(ends_reached, false)) AS ends_reached,
        min(coalesce(counted_reached, 0)) AS counted_reached,
        bool_and(counted < targets AND coalesce(others_varied, false)) AS masked,
        max(attentions) AS attentions, min(causal) AS causal
    FROM target_lookups
    GROUP BY rank, step, microbatch
), judged AS (
    SELECT rank, min(step) AS step, arg_min(module_id, step) AS module_id, count(*) AS looks,
        sum(counted)::BIGINT AS counted,
        bool_and(attentions > 0 AND causal = attentions AND ends_reached) AS causal,
        bool_and(masked AND counted_reached >= $nearly) AS masked
    FROM looks
    GROUP BY rank
    HAVING bool_and(equal) AND count(*) >= $looks
)
SELECT j.rank, j.step, m.module, j.looks, j.counted, 1.0 AS value,
    coalesce('embedding ' || concat_ws('.', m.model, nullif(m.module, '')), 'an embedding') AS place,
    CASE WHEN j.causal
    THEN 'and each prediction sees its own: attention looks back only, and a gradient reaches the last place'
        ELSE 'while others are ignored, and gradients come back to them: they are not masked' END AS proof,
    CASE WHEN j.causal THEN 'error' ELSE 'warning' END AS severity
FROM judged j
LEFT JOIN modules m ON m.rank = j.rank AND m.module_id = j.module_id
WHERE j.causal OR j.masked
ORDER BY severity, j.step, j.rank
