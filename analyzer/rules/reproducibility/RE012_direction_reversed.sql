/*
code = "RE012"
name = "direction-reversed"
severity = "error"
phase = "step"
signal = "source"
message = "At {place} {what_}."
fix = "{remedy}"
seeks = ["events: event = 'turned-round'"]
[say.what_]
limit = "{text} is turned round. {target} begins at {begins}, and {limit} is its limit: so it is {limit} from the first time on, and nothing between is ever used"
never = "the condition {text} is never true. {target} begins at {begins}, which no number beats in this direction. So nothing is ever kept as the best"
worst = "{text} keeps the worst as the best: {limit} is compared in the wrong direction"
average = "{text} keeps {begins} of the old {target} at each update. So {target} nearly is what {limit} was last, and no average of it"
[say.remedy]
write = "Write {meant}."
turn = "Turn the comparison round: {target} is to be replaced where {limit} is better."
begin = "Begin {target} with the other infinity, or turn the comparison round, whichever is meant."
swap = "Exchange the two weights, so that {target} keeps most of its old value, and {limit} gets the small rest."
[needs]
tables = ["events"]
[doc]
what = "A statement of what trains is the wrong way round. A limit of what grows from below it is taken with max, or of what falls from above it with min. A best value begins at an infinity that no number beats in its comparison. A measure such as accuracy is the best where it is least, or an error such as a loss where it is greatest. Or an average of weights keeps a fifth or less of its old value."
why = "max(1.0, beta + step) is 1.0 at once. Weights that are kept as the best are those of the worst pass, or none are kept at all. A target network that is nearly a copy does not steady anything."
not_this = "Names that are both a measure and an error, such as loss_acc, or neither, such as score. Best values that something else sets anew. The greatest loss that an attack looks for. Averages whose weight is no number in the source, and those of losses or scores. Names that tell of no average."
source = "Arithmetic of max, min and infinity. wengong-jin/icml18-jtnn #15, alibaba/FederatedScope #374. Published averages keep 0.9 and more (Polyak averaging, Tarvainen and Valpola 2017)."
*/
SELECT rank, step, NULL AS value, detail ->> '$.place' AS place, detail ->> '$.text' AS text,
    CASE detail ->> '$.reason' WHEN 'limit' THEN 'limit' WHEN 'never' THEN 'never'
        WHEN 'average' THEN 'average' ELSE 'worst' END AS what_,
    detail ->> '$.target' AS target, detail ->> '$.limit' AS "limit",
    detail ->> '$.value' AS begins, detail ->> '$.meant' AS meant,
    CASE WHEN meant <> '' THEN 'write' WHEN what_ = 'never' THEN 'begin' WHEN what_ = 'average' THEN 'swap'
        ELSE 'turn' END AS remedy
FROM events WHERE event = 'turned-round'
ORDER BY step, rank
