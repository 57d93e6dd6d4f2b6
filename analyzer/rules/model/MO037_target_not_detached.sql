/*
code = "MO037"
name = "target-not-detached"
severity = "error"
phase = "loss"
signal = "event"
message = "{what_} ({through}, {part_}). {value} looks at the loss found it; {parameters} parameters are trained through it."
fix = "{remedy}"
seeks = ["events: event = 'target-not-detached'"]
explains = ["overfit", "nothing-learnt", "loss-off-course", "representation-collapse", "loss-sign-flipped"]
[say.what_]
actions = "The target for the values of actions keeps its gradient, by way of the value of the state that follows"
states = "The target for the values of states keeps its gradient, by way of the value of the state that follows"
advantage = "The policy's loss multiplies by an advantage that keeps its gradient, and an error of the same loss trains that value"
[say.part_]
root = "in the root module"
named = "in {module}"
outside = "outside all modules"
[say.remedy]
actions = "Compute the target under torch.no_grad(), or detach it."
states = "Detach the value of the state that follows, unless a residual gradient is meant."
advantage = "Multiply the logarithm of the probability by advantage.detach()."
[needs]
tables = ["events"]
[params.looks]
value = 3
unit = "looks"
doc = "Looks at the loss that must show it."
source = "convention: of this project, a single look may be of a loss that a script uses once"
[doc]
what = "A reward and the discounted value of what follows are compared with a value of the same weights, and both have a graph. Or the logarithm of a probability is multiplied by numbers less a value that another term of the same loss trains by an error."
why = "The loss then falls by moving the target to the prediction. A policy that trains the critic makes advantages large, and the critic wrong."
not_this = "Two views of a sample, a loss that only maximises a value, a baseline without an error of its own, targets of another network. Two values of states are a warning: a residual gradient may be meant."
source = "The graph of the loss. Sutton and Barto, Reinforcement Learning, section 9.3: semi-gradient methods. Datawhalechina/easy-rl #117, astariul/encode-attend-navigate-pytorch #2."
*/
WITH seen AS (
    SELECT rank, detail ->> '$.form' AS form, min(step) AS step, count(*) AS value,
        arg_min(module_id, time_ns) AS module_id,
        arg_min(detail ->> '$.through', time_ns) AS through,
        arg_min((detail ->> '$.parameters')::INT, time_ns) AS parameters
    FROM events
    WHERE event = 'target-not-detached'
    GROUP BY ALL
)
SELECT s.rank, s.step, if(s.form = 'states', 'warning', 'error') AS severity, m.module,
    s.value, s.through, s.parameters,
    CASE WHEN m.module IS NULL THEN 'outside' WHEN m.module = '' THEN 'root' ELSE 'named' END AS part_,
    CASE s.form WHEN 'actions' THEN 'actions' WHEN 'states' THEN 'states' ELSE 'advantage' END AS what_,
    what_ AS remedy
FROM seen s
LEFT JOIN (
    SELECT rank, module_id, arg_min(module, place_of_call(call_order)) AS module FROM modules GROUP BY ALL
) m ON m.rank = s.rank AND m.module_id = s.module_id
WHERE s.value >= $looks
ORDER BY s.step, s.rank, s.form
