/*
code = "MO032"
name = "recurrent-state-not-carried"
severity = "error"
phase = "forward"
signal = "event"
message = "{module} ({class_name}) is called {calls} times in one forward, with other inputs but the same state. The state that it returns is not passed to the next call. It remembers nothing of the steps before."
fix = "Give each call the state that the call before has returned: out, state = cell(x, state)."
seeks = ["events: event = 'state-not-carried'"]
explains = ["nothing-learnt"]
[needs]
tables = ["events", "modules"]
[doc]
what = "A loop calls a recurrent cell, or a recurrence that gets one place of a sequence at a time. In four calls or more it gives the same computed state each time."
why = "A recurrence without its state is a layer: each output knows of its own input and of the beginning only."
not_this = "States of zeros or learnt ones, which begin a sequence. Recurrences that get whole sequences. A new state in any of the calls."
source = "Identity of the state in memory."
*/
SELECT e.rank, e.step, m.module, m.class_name, (e.detail ->> '$.calls')::BIGINT AS calls,
    (e.detail ->> '$.calls')::BIGINT AS value
FROM events e JOIN modules m ON m.rank = e.rank AND m.module_id = e.module_id
WHERE e.event = 'state-not-carried'
QUALIFY row_number() OVER (PARTITION BY e.rank ORDER BY e.step, m.call_order) = 1
ORDER BY e.step, e.rank
