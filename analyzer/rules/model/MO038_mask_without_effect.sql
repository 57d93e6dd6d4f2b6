/*
code = "MO038"
name = "mask-without-effect"
severity = "error"
phase = "forward"
signal = "event"
message = "A softmax {part_} leaves {value:.1%} of the probability to {what_}: {how_}. Scores that are all equal would leave {uniform:.1%}."
fix = "{remedy}"
seeks = ["events: event = 'mask-without-effect'"]
explains = ["overfit", "nothing-learnt", "loss-off-course"]
[say.part_]
root = "in the root module"
named = "in {module}"
outside = "outside all modules"
[say.what_]
later = "later places that a mask hides"
padding = "places of padding that a mask hides"
entries = "entries that a mask takes out"
[say.how_]
filled = "they are filled with a number among the scores"
multiplied = "they are multiplied by 0, a score like others"
[say.remedy]
filled = "Fill with -inf, or with torch.finfo(scores.dtype).min. sys.float_info.min is next to 0, and so is -1e-9."
multiplied = "Fill with -inf instead: scores.masked_fill(mask == 0, float('-inf'))."
[needs]
tables = ["events"]
[params.looks]
value = 3
unit = "looks"
doc = "Looks at the loss that must show it."
source = "convention: of this project, a single look may be of a batch unlike the others"
[doc]
what = "Scores behind a mask enter a softmax with one number in their place, or times 0. Rows that keep some entries leave probability to the masked ones."
why = "The exponential of 0 is 1: attention then mixes in what is hidden, and a policy draws choices that are not allowed. Nothing raises."
not_this = "Rows that are masked wholly, fills of -20 or less, masks applied again behind the softmax, bounds and thresholds of the scores, biases. Scores on a device are not looked at."
source = "Probabilities in the graph of the loss. Google-deepmind/open_spiel #1259, allenai/allennlp #105."
*/
WITH seen AS (
    SELECT rank, min(step) AS step, count(*) AS looks, arg_min(module_id, time_ns) AS module_id,
        arg_min(detail ->> '$.kind', time_ns) AS kind, arg_min(detail ->> '$.op', time_ns) AS op,
        arg_min((detail ->> '$.share')::DOUBLE, time_ns) AS value,
        arg_min((detail ->> '$.uniform')::DOUBLE, time_ns) AS uniform
    FROM events
    WHERE event = 'mask-without-effect'
    GROUP BY rank
)
SELECT s.rank, s.step, m.module, s.value, s.uniform,
    CASE WHEN m.module IS NULL THEN 'outside' WHEN m.module = '' THEN 'root' ELSE 'named' END AS part_,
    CASE s.kind WHEN 'later' THEN 'later' WHEN 'padding' THEN 'padding' ELSE 'entries' END AS what_,
    if(s.op = 'Mul', 'multiplied', 'filled') AS how_, how_ AS remedy
FROM seen s
LEFT JOIN (
    SELECT rank, module_id, arg_min(module, place_of_call(call_order)) AS module FROM modules GROUP BY ALL
) m ON m.rank = s.rank AND m.module_id = s.module_id
WHERE s.looks >= $looks
ORDER BY s.step, s.rank
