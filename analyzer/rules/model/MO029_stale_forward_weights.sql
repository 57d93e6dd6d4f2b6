/*
code = "MO029"
name = "stale-forward-weights"
severity = "error"
phase = "forward"
signal = "stale"
message = "At step {step} the forward pass used {stale} of {weights} weights as they were at step {since}, before later updates{names_}. At step {since} {operator} made {thing_}, and it was used again. Gradients belong to weights that no longer exist."
fix = "{remedy}"
seeks = ["events: event = 'stale-forward-weights'"]
explains = ["shuffled-labels", "nothing-learnt", "loss-off-course", "lr-too-high", "exploding-gradients", "overfit", "unexplained-jump"]
[say.names_]
first = " (first {tensor})"
[say.thing_]
cast = "a cast of them"
value = "a value of them"
[say.remedy]
close_autocast = "Open autocast round each forward and its loss, and close it before backward() and step(): it keeps the casts of the weights until its block ends. Or call torch.clear_autocast_cache() after each step, or give autocast cache_enabled=False."
compute_again = "Compute what is made of the weights again in each forward: a cast, a normalised or merged weight that is kept in an attribute must be made after every optimizer step."
[params.least]
value = 2
unit = "looks"
doc = "Looks that must find it: one may be a forward that was prepared before a step."
source = "convention: of this project, one look may be a forward that was prepared before a step"
[needs]
tables = ["steps", "events"]
[doc]
what = "A node of the autograd graph that reads a weight comes back in a later step. The weight has been updated meanwhile. Nothing newer in that forward reads this weight."
why = "The optimizer moves weights that the forward does not see. What it sees jumps when the old value is made again."
not_this = "Several forwards or backwards before one step (accumulation). A weight that the same forward reads again as well. What is old only once."
source = "Identity of the autograd node, and the version counter of the weight that torch raises at each update in place."
*/
WITH looks AS (
    SELECT e.rank, e.step, e.module_id, json_extract(e.detail, '$.stale')::INT AS stale,
        json_extract(e.detail, '$.weights')::INT AS weights,
        json_extract(e.detail, '$.since')::BIGINT AS since,
            json_extract_string(e.detail, '$.operator') AS operator,
        json_extract_string(e.detail, '$.autocast') AS autocast,
            json_extract_string(e.detail, '$.names[0]') AS first_name,
        count(*) OVER (PARTITION BY e.rank) AS found
    FROM events e WHERE e.event = 'stale-forward-weights'
)
SELECT l.rank, l.step, m.module, l.stale, l.weights, l.since, l.operator, l.first_name AS tensor,
    l.stale AS value,
    CASE WHEN l.first_name IS NOT NULL THEN 'first' END AS names_,
    CASE l.operator WHEN 'ToCopy' THEN 'cast' ELSE 'value' END AS thing_,
    CASE WHEN l.operator = 'ToCopy' AND l.autocast IS NOT NULL THEN 'close_autocast'
        ELSE 'compute_again' END AS remedy
FROM looks l LEFT JOIN modules m ON m.rank = l.rank AND m.module_id = l.module_id
WHERE l.found >= $least
QUALIFY row_number() OVER (PARTITION BY l.rank ORDER BY l.step) = 1
ORDER BY l.step, l.rank
