/*
code = "OP028"
name = "loss-term-without-effect"
severity = "error"
phase = "backward"
signal = "used"
message = "{what_}"
fix = "{remedy_}"
seeks = [
    [
        "loss_terms: NOT used",
        "events: event = 'term-detached'",
    ],
]
explains = ["plateau"]
[say.held_]
by_no_optimizer = "that no optimizer holds"
by_one_that_never_steps = "whose optimizer never steps"
by_one_that_steps_too_late = "whose gradients are cleared before their optimizer steps"
[say.what_]
reaches_others = "A term of the loss trains nothing. From step {step} on, in each of {looks} examined steps, the {op} of module {place} reaches only {parameters} weights {held_}. The step after this backward trains other weights with the other terms."
detached_in_source = "A term of the loss trains nothing. In {text} ({line_}) {term} is a number without a graph: {made} ({made_line_}) cut it off. It is in the printed loss and brings no gradient."
own_difference = "{text} ({line_}) subtracts weights from themselves, and is always zero. {made} ({made_line_}) keeps the model's own parameters, which every step changes, and no copy of them."
no_graph_created = "A term of the loss trains nothing. In {text} ({line_}) {term} has no graph: {made} ({made_line_}) gave gradients without one. The term is in the printed loss and brings no gradient."
[say.remedy_]
look_at_the_input = "Look at what goes into module {place} for this term. A detach(), .data or no_grad() there cuts it off from the weights that this step must train. If the term is meant for the weights that it reaches, step their optimizer before their gradients are cleared. If it is meant for none, leave it out."
keep_the_graph = "Add {term} as the tensor that it was, and call item() or detach() only for what is printed."
keep_copies = "Keep copies in {term}: p.detach().clone() for each parameter."
create_graph = "Give create_graph=True to {made}. Then the gradient that it gives has a graph, and the term reaches the weights."
[params.looks]
value = 3
unit = "looks"
doc = "Backward passes of a kind of loss in which the term was followed and never used."
source = "convention: of this project, fewer may be an odd branch"
[needs]
tables = ["steps"]
[doc]
what = "A loss is a sum. The graph of one addend, through a module, reaches only certain weights. Their optimizer does not step before their gradients are cleared. That optimizer steps in the same iterations with other gradients, or never steps in the run. Other addends of the same backward are used by the step that follows. As a warning: only weights that no optimizer holds, and that nothing changes. Or the source of what runs makes a number of a term by item(), float() or detach() before it is added, or takes all that it is made of through NumPy. Or the term is made of a gradient of torch.autograd.grad, which was not told to create a graph. Or it is made of weights less a list of the same weights, kept by reference."
why = "The term is in the loss and in its printed value, and has no influence on any weight. An example is a generator that never hears of its discriminator."
not_this = "A term that reaches what is trained also through other modules. Gradients that are kept until their optimizer's turn, in whatever order. Accumulation. A loss of the same kind that is taken up in another turn (two optimizers that alternate on one loss). An optimizer that steps now and then. Penalties on weights outside modules. Terms that reach an input. Functions of the script's own, whose graph does not tell what they reach. Backward passes whose gradients nobody uses."
source = "The autograd graph, and the identity of the weights whose optimizers stepped. PyTorch's documentation of torch.autograd.grad: create_graph is False unless given."
*/
-- detector: reaches_others
WITH judged AS (
    SELECT t.rank, t.loss_kind, t.term, any_value(t.terms) AS terms, any_value(t.op) AS op,
        any_value(t.module_id) AS module_id, any_value(t.parameters) AS parameters,
        any_value(t.optimizers) AS optimizers, max(t.unheld) AS unheld,
        min(t.step) AS step, count(*) AS looks, list(DISTINCT t.step) AS looked
    FROM loss_terms t
    WHERE t.used IS NOT NULL
    GROUP BY t.rank, t.loss_kind, t.term
    HAVING NOT bool_or(t.used) AND count(*) >= $looks
), stepping AS (
    SELECT rank, optimizer_id, list(DISTINCT step) AS steps
    FROM steps WHERE stepped GROUP BY rank, optimizer_id
), holders AS (
    -- of each optimizer that holds some of these weights: does it step in these iterations, or never at all
    SELECT j.rank, j.loss_kind, j.term, bool_and(s.optimizer_id IS NULL) AS never,
        bool_and(s.optimizer_id IS NULL
            OR len(list_filter(j.looked, lambda x:
                list_contains(s.steps, x) OR list_contains(s.steps, x + 1))) = len(j.looked)) AS beside
    FROM (SELECT *, unnest(optimizers) AS holder FROM judged) j
    LEFT JOIN stepping s ON s.rank = j.rank AND s.optimizer_id = j.holder
    GROUP BY j.rank, j.loss_kind, j.term
)
SELECT j.rank, j.step, m.module, m.model, j.terms, j.op, j.parameters, j.looks, j.term,
    NULL::DOUBLE AS value, concat_ws('.', m.model, nullif(m.module, '')) AS place,
    CASE WHEN h.rank IS NULL THEN 'by_no_optimizer' WHEN h.never THEN 'by_one_that_never_steps'
        ELSE 'by_one_that_steps_too_late' END AS held_,
    'reaches_others' AS what_, 'look_at_the_input' AS remedy_,
    CASE WHEN h.rank IS NULL THEN 'warning' ELSE 'error' END AS severity, j.loss_kind
FROM judged j
JOIN modules m ON m.rank = j.rank AND m.module_id = j.module_id
LEFT JOIN holders h ON h.rank = j.rank AND h.loss_kind = j.loss_kind AND h.term = j.term
WHERE CASE WHEN h.rank IS NULL THEN len(j.optimizers) = 0 ELSE h.beside AND j.unheld = 0 END
-- detector: detached_in_source
SELECT e.rank, e.step, e.detail ->> '$.text' AS text, e.detail ->> '$.term' AS term,
    e.detail ->> '$.made' AS made,
    e.detail ->> '$.place' AS line_, e.detail ->> '$.made_place' AS made_line_,
    CASE reason WHEN 'no_graph_created' THEN reason WHEN 'own_difference' THEN reason
        ELSE 'detached_in_source' END AS what_,
    CASE reason WHEN 'no_graph_created' THEN 'create_graph' WHEN 'own_difference' THEN 'keep_copies'
        ELSE 'keep_the_graph' END AS remedy_, 'error' AS severity
FROM (SELECT *, coalesce(detail ->> '$.reason', '') AS reason FROM events) e
WHERE e.event = 'term-detached'
-- together
SELECT * EXCLUDE (loss_kind) FROM found
ORDER BY severity, step, rank, loss_kind, term
