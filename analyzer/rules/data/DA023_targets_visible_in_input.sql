/*
code = "DA023"
name = "targets-visible-in-input"
severity = "error"
phase = "loss"
signal = "equal"
message = "The model is given the very targets that it must predict. In each of {looks} steps examined from step {step} on, {all_}{counted} targets that count are the tokens {where_} in what {place_} looks up, {proof_}."
fix = "{remedy}."
seeks = [
    """target_lookups: varied AND (equal = counted AND counted > 0 OR next_equal = next_places \
        OR equal >= $shown * counted AND masked >= $hidden * counted)""",
]
explains = ["overfit", "plateau"]
[say.all_]
all = "all "
[say.where_]
own_places = "at their own places"
one_place_later = "one place later"
[say.place_]
embedding = "embedding {embedding}"
unknown = "an embedding"
[say.proof_]
sees_its_own = "and each prediction sees its own: attention looks back only, and a gradient reaches the last place"
not_masked = "while others are ignored, and gradients come back to them: they are not masked"
no_causal_mask = "and attention shows each place what is behind it: there is no causal mask"
beside_the_masked = "beside the {masked} that a mask hides: no attention is causal, and the loss counts what the model can copy"
[say.remedy]
sees_its_own = "Compare what comes out at a place with the token after it: logits[:, :-1] with tokens[:, 1:]. Or give a beginning token in front"
not_masked = "Give the model the tokens in which the targets are masked, not the original ones"
no_causal_mask = "Hide later places from attention: is_causal=True, or the mask of nn.Transformer.generate_square_subsequent_mask"
beside_the_masked = "Let the loss count the masked places only: give the others its ignore_index as target"
[params.looks]
value = 4
unit = "looks"
doc = "Backward passes that were looked at, all of which must show it."
source = "convention: of this project, fewer passes may show it by chance"
[params.nearly]
value = 0.9
doc = "Share of the places of targets to which a gradient comes back, from which they are not masked."
source = "convention: of this project, ten percent are left for padding and for the first position, which sees nothing"
[params.places]
value = 16
unit = "targets"
doc = "Targets that are compared with the token one place later, in each look."
source = "arithmetic: of two tokens, all of so many agree by chance once in 65,536"
[params.shown]
value = 0.5
unit = "of the targets"
doc = "Share of the counted targets that stand at their own places, beside those under a mask."
source = "convention: of this project, a mask hides a few tokens: most of what counts is shown"
[params.hidden]
value = 0.01
unit = "of the targets"
doc = "Share of the counted targets at whose place the mask stands."
source = "convention: of this project, a hundredth is no accident"
[params.both]
value = 0.95
unit = "of the targets"
doc = "Both together."
source = "convention: Devlin et al. (2019), BERT, put another token in the place of 1.5 % of all, a tenth of those chosen"
[needs]
tables = ["target_lookups", "steps"]
[doc]
what = "Every counted target of a classification loss is the token at its own place in the lookup of an embedding. All attention behind the loss looks back only, and a gradient comes back to the last place. Only the prediction there can have brought it, so each prediction sees its own target. Or, as a warning: other targets are ignored, and tokens of several values are at their places. Gradients come back to the places of the targets, which a mask should hide. Or every target is the token one place later, in the only sequence that is read. No attention of the model hides later places. Or nearly all targets that are not at their own places are under one index, a mask that is no target. The others count as well."
why = "The loss falls to almost nothing, because copying is enough. The model has learnt nothing that it can use."
not_this = "Targets that are shifted in the loss or in the data, where attention looks back only. Models that shift or mask behind the embedding (no gradient comes back there). Encoders with a decoder that is given shifted tokens. Autoencoders, which are to see what they give back, also where padding is ignored. Recurrent models, whose last place is reached through their state. Labels that serve as a condition for a whole sample."
source = "Equality of integers, and the autograd graph."
*/
-- detector: at_their_own_places
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
    concat_ws('.', m.model, nullif(m.module, '')) AS embedding, 'own_places' AS where_, 'all' AS all_,
    if(j.causal, 'sees_its_own', 'not_masked') AS proof_,
    CASE WHEN j.causal THEN 'error' ELSE 'warning' END AS severity
FROM judged j
LEFT JOIN modules m ON m.rank = j.rank AND m.module_id = j.module_id
WHERE j.causal OR j.masked
-- detector: one_place_later
WITH looks AS (
    SELECT rank, step, microbatch, any_value(module_id) AS module_id, sum(next_places) AS counted
    FROM target_lookups
    WHERE next_places IS NOT NULL
    GROUP BY rank, step, microbatch
    HAVING bool_and(next_equal = next_places AND varied) AND sum(next_places) >= $places
        AND bool_and(ahead = attentions AND ahead > 0)
)
SELECT l.rank, min(l.step) AS step, any_value(m.module) AS module, count(*) AS looks,
    sum(l.counted)::BIGINT AS counted,
    1.0 AS value, concat_ws('.', any_value(m.model), nullif(any_value(m.module), '')) AS embedding,
    'one_place_later' AS where_, 'all' AS all_, 'no_causal_mask' AS proof_, 'error' AS severity
FROM looks l
LEFT JOIN modules m ON m.rank = l.rank AND m.module_id = l.module_id
GROUP BY l.rank
-- all looks of the run
HAVING count(*) >= $looks
    AND count(*) = (SELECT count(DISTINCT (t.step, t.microbatch)) FROM target_lookups t WHERE t.rank = l.rank)
-- detector: beside_the_masked
SELECT l.rank, min(l.step) AS step, any_value(m.module) AS module, count(*) AS looks,
    sum(l.equal)::BIGINT AS counted, sum(l.equal) / sum(l.counted) AS value,
    concat_ws('.', any_value(m.model), nullif(any_value(m.module), '')) AS embedding,
    sum(l.masked)::BIGINT AS masked,
    'own_places' AS where_, 'beside_the_masked' AS proof_, 'error' AS severity
FROM target_lookups l
LEFT JOIN modules m ON m.rank = l.rank AND m.module_id = l.module_id
GROUP BY l.rank
HAVING count(*) >= $looks
    AND bool_and(l.varied AND l.attentions > 0 AND l.causal = 0 AND l.counted >= $places
        AND l.equal >= $shown * l.counted AND coalesce(l.masked >= $hidden * l.counted, false)
        AND l.equal + l.masked >= $both * l.counted)
-- together
SELECT *, if(embedding = '', 'unknown', 'embedding') AS place_, proof_ AS remedy FROM found
ORDER BY severity, step, rank
