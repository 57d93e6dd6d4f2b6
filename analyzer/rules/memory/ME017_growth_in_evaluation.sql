/*
code = "ME017"
name = "growth-in-evaluation"
severity = "warning"
phase = "eval"
signal = "event"
message = "An evaluation keeps what it gathers until the next one. {kind_}{holder_}{added_} gains {added} {of_} in each, {length} by evaluation {evaluation}, and none while the model trains.{grows_}"
fix = "Empty it before each evaluation: clear() the list, reset() the metric, or create it again. Where it holds losses or outputs, evaluate under torch.no_grad() and add .item() or .detach().cpu()."
seeks = ["events: event = 'evaluation-growth'"]
explains = ["tensor-list-growth", "graph-retained-across-steps", "host-memory-leak", "memory-short", "throughput-drift"]
[say.kind_]
sum = "The sum"
longer = "The tensor"
dict = "The dictionary"
set = "The set"
list = "The list"
[say.holder_]
found = " {holder}"
not_found = " that no variable or attribute could be found for"
[say.added_]
at_a_line = ", added to in {place}: `{expression}`,"
[say.of_]
terms = "terms"
rows = "rows"
elements = "elements"
[say.grows_]
with_graphs = " Each keeps its autograd graph."
in_bytes = " They take {bytes:bytes}."
[params.evaluations]
value = 3
unit = "evaluations"
doc = "Evaluations whose outputs it holds. These are two that were looked at and one before. Or it is one where all that it holds is a multiple of that."
source = "convention: of this project, the first evaluations fill caches"
[params.worth_a_word]
value = 1024
unit = "bytes"
doc = "Growth of an evaluation from which bytes are said."
source = "arithmetic: 1 kiB"
[params.alike]
value = 0.5
doc = "Least growth of an evaluation over the largest."
source = "convention: of this project, what is never cleared grows evenly"
[needs]
tables = ["events", "steps"]
[doc]
what = "A list, dictionary or tensor grows in one evaluation after the other. It grows between the first forward of an evaluation and the first training forward after it. Through the training steps between them it keeps its length. It is an error where it holds autograd graphs."
why = "Memory grows from one evaluation to the next until the process dies. And a score of all that was gathered mixes outputs of earlier weights with those of now."
not_this = "Lists that are made or cleared for each evaluation, numbers of a history. Models and state_dicts that are kept, one small result of each evaluation such as a confusion matrix. Bounded queues, agents that fill a buffer."
source = "Looks at the lengths of all containers and tensors, at equal places of the loop."
*/
WITH grown AS (
    SELECT rank, step, detail ->> '$.kind' AS kind, detail ->> '$.holder' AS holder,
        detail ->> '$.scope' AS scope, detail ->> '$.place' AS place, detail ->> '$.expression' AS expression,
        (detail ->> '$.evaluation')::INT AS evaluation, (detail ->> '$.length')::BIGINT AS length,
        (detail ->> '$.added')::BIGINT AS added, (detail ->> '$.bytes')::BIGINT AS bytes,
        (detail ->> '$.with_graph')::BOOLEAN AS with_graph, detail ->> '$.element' AS element
    FROM events
    WHERE event = 'evaluation-growth' AND rank NOT IN (SELECT rank FROM acting_models)
), by_holder AS (
    SELECT rank, kind, holder, any_value(scope) AS scope, any_value(place) AS place,
        any_value(expression) AS expression, any_value(element) AS element, count(*) AS looks,
        min(step) AS step, arg_max(length, evaluation) AS length, max(evaluation) AS evaluation,
        arg_max(added, evaluation) AS added, min(added) AS least, max(added) AS most,
        arg_max(bytes, evaluation) AS bytes, bool_or(with_graph) AS with_graph,
        arg_min(round((length - added) / added)::BIGINT, evaluation) AS earlier
    FROM grown WHERE added > 0 GROUP BY rank, kind, holder
), evaluated AS (
    SELECT rank, step, row_number() OVER (PARTITION BY rank ORDER BY step DESC) AS back
    FROM (SELECT s.rank, s.step
        FROM steps s JOIN by_holder h ON h.rank = s.rank AND s.step < h.step
        WHERE s.eval_forwards > 0 OR s.eval_grad_forwards > 0 GROUP BY s.rank, s.step)
)
SELECT h.rank, coalesce(e.step, h.step) AS step, h.length AS value, h.added, h.length, h.evaluation,
    CASE WHEN h.kind IN ('sum', 'longer', 'dict', 'set') THEN h.kind ELSE 'list' END AS kind_,
    CASE WHEN h.holder IS NULL THEN 'not_found' ELSE 'found' END AS holder_,
    '`' || h.holder || '` (' || h.scope || ')' AS holder,
    CASE WHEN h.place IS NOT NULL THEN 'at_a_line' END AS added_, h.place, h.expression,
    CASE h.kind WHEN 'sum' THEN 'terms' WHEN 'longer' THEN 'rows' ELSE 'elements' END AS of_,
    CASE WHEN h.with_graph THEN 'with_graphs' WHEN h.bytes >= $worth_a_word THEN 'in_bytes' END AS grows_,
    h.bytes,
    CASE WHEN h.with_graph THEN 'error' ELSE 'warning' END AS severity
FROM by_holder h
LEFT JOIN evaluated e ON e.rank = h.rank AND e.back = least(h.earlier, (SELECT max(l.back)
    FROM evaluated l WHERE l.rank = h.rank))
WHERE h.least >= $alike * h.most
  AND (h.looks > 1 AND h.length >= $evaluations * h.least
      OR h.length % h.added = 0 AND h.length / h.added >= greatest($evaluations, h.evaluation - 1))
QUALIFY row_number() OVER (PARTITION BY h.rank ORDER BY h.with_graph DESC, h.bytes DESC, h.holder) = 1
ORDER BY step, h.rank
