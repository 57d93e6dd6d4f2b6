/*
code = "MO035"
name = "result-discarded"
severity = "error"
phase = "forward"
signal = "source"
message = "At {place} {what_}{more}."
fix = "{remedy}"
seeks = [["events: event = 'result-discarded'", "events: event = 'result-unread'"]]
explains = ["broken-graph", "unused-module", "zero-grad-missing", "no-optimizer-step", "train-mode-in-eval", "stuck-in-eval-mode", "scheduler-never-stepped", "ema-not-updated"]
[say.what_]
computed = "the result of {text} is thrown away. {called} returns a new tensor, and {target} stays as it is"
not_called = "{text} is named and not called. So {called} never runs there"
compared = "{text} compares and assigns nothing. So {target} stays as it is"
signed = "{text} assigns a value with a plus sign. So the earlier value of {target} is thrown away"
loads_nothing = "{text} gives the weights out and loads none. So {target} stays as it is"
rebound = "{text} only binds the loop's variable {target} to another tensor. So the parameter that it stood for stays as it is"
unread = "nothing reads {target} after {text}, and {called} enters nothing else. So the module's output does not depend on {called}"
overwritten = "{called} binds {target} anew before anything has read what {text} computed. So the modules in that line are without effect"
made_anew = "the result of {text} is thrown away. It is a new module with the given weights, and {target} keeps its own"
misspelt = "nothing reads {target} after {text}. What is read from there on is {called}, whose name differs in one letter"
twin_read = "nothing reads {target} after {text}. The loop goes on with {called}, which another loop has left: the same values at each pass"
list_unread = "the loop before fills {target}, and nothing reads it. {text} takes {called} in its place: what the last pass has left stands for all"
branch = "nothing reads {target} after {text}. So the results of {parts} are without effect: in {looks} examined steps no gradient came to their weights"
untouched = "nothing reads {target} after {text}, and the forward returns its argument {called} as it was given. So the results of {parts} are without effect: in {looks} examined steps no gradient came to their weights"
[say.remedy]
return_it = "Return {target} where {called} is returned, or call the result {called}."
read_it = "Go on with {target} where it is meant. Or take the line out, with the modules that only it needs."
go_on = "Use {target} in {called}, where it is meant to go on. Or take the first line out."
read_this = "Read {target} where {called} is read there, or give both one name."
use = "Go on with {target} where {called} is meant to count, or take the argument out."
assign_or_in_place = "Take the result: {target} = {text}. Or call {called}_, which changes the tensor itself."
assign = "Take the result: {target} = {text}."
write = "Write {meant}."
[say.more]
alone = ""
others = "; {others} other lines do the same"
[params.least]
value = 3
unit = "steps"
doc = "Steps in which no weight of a module had a gradient, where its result ends in a variable that nothing reads."
source = "convention: of this project, as for a graph that is cut (MO004)"
[needs]
tables = ["events"]
[doc]
what = "A line of the model, or of a function that trains it, does nothing with its value. It calls an operator such as masked_fill, clamp or softmax as a statement. It names zero_grad, backward, step, train or eval without calling it. It compares requires_grad, grad, training or a learning rate with == as a statement. It writes =+ where += adds. Or it calls state_dict on the weights that it means to load. Or an argument of a forward is joined with others into a variable that nothing reads, and enters nothing else. Or a forward binds a variable to what its modules compute, and anew before anything reads it. Or the result of a module ends in a variable of the forward that nothing reads, and its weights never have a gradient. That is a warning where the forward does not return an argument of its own untouched. Or a loop over parameters assigns to its own variable with =, and nothing reads that. Or the module calls from_pretrained on a part of its own as a statement. Or nothing reads a name that a call's result is bound to, and a name that differs in one letter inside is read in its place. Or a loop reads what another loop has left in outputs, and nothing reads its own val_outputs. Or a loop fills a list that nothing reads, and a tensor is made of its last element in its place."
why = "An operator without an underscore changes no tensor. A method that is only named does not run, and == assigns nothing. The variable of a loop is a name: = copies nothing into the tensor. The source says what never happens."
not_this = "Calls with out= or inplace=True. Names that do something elsewhere too, such as add, copy and normalize. Other attributes and comparisons. An =+ on a name that has no value before. In loops over parameters += and functions in place, and values that the loop goes on to use. Arguments that nothing takes at all. Variables that are bound anew on one of several ways only. Names of fewer than five letters, and names that differ in their first or last letter. Functions that nothing in the file calls from forward or from the training loop."
source = "PyTorch's documentation: operators whose name ends in an underscore work in place, the others return a new tensor. Python's documentation: expression statements."
*/
-- detector: said_by_source
WITH slips AS (
    SELECT e.rank, min(e.step) AS step, arg_min(m.module, place_of_call(m.call_order)) AS module,
        count(*) AS value, arg_min(e.detail, e.time_ns) AS first
    FROM events e
    LEFT JOIN modules m ON m.rank = e.rank AND m.module_id = e.module_id
    WHERE e.event = 'result-discarded'
    GROUP BY e.rank
)
SELECT s.rank, s.step, s.module, s.value, 'forward' AS phase, s.first ->> '$.place' AS place,
    s.first ->> '$.text' AS text, s.first ->> '$.target' AS target, s.first ->> '$.called' AS called,
    s.first ->> '$.meant' AS meant,
    s.first ->> '$.reason' AS reason_,
    CASE WHEN reason_ IN
            ('not_called', 'compared', 'signed', 'loads_nothing', 'rebound', 'unread', 'overwritten',
             'made_anew', 'misspelt', 'twin_read', 'list_unread')
        THEN reason_ ELSE 'computed' END AS what_,
    s.value - 1 AS others, if(others > 0, 'others', 'alone') AS more,
    CASE WHEN what_ = 'unread' THEN 'use'
        WHEN what_ = 'overwritten' THEN 'go_on'
        WHEN what_ IN ('misspelt', 'twin_read', 'list_unread') THEN 'read_this'
        WHEN what_ <> 'computed' THEN 'write'
        WHEN (s.first ->> '$.method')::BOOL AND (s.first ->> '$.in_place')::BOOL THEN 'assign_or_in_place'
        ELSE 'assign' END AS remedy,
    'error' AS severity
FROM slips s
-- detector: unread_branch
WITH parts AS (
    SELECT e.rank, e.step, e.detail, m.model, m.module, m.call_order
    FROM events e
    JOIN modules m ON m.rank = e.rank AND m.module_id = e.module_id
    WHERE e.event = 'result-unread'
), looked AS (
    -- weights of each part, in steps in which they were looked at
    SELECT p.rank, p.model, p.module, bool_and(g.missing) AS missing, count(DISTINCT g.step) AS looks
    FROM parts p
    JOIN parameters w ON w.rank = p.rank AND w.model = p.model
        AND (w.module = p.module OR starts_with(w.module, p.module || '.'))
    JOIN param_steps g ON g.rank = w.rank AND g.tensor_id = w.tensor_id AND NOT g.frozen
    GROUP BY p.rank, p.model, p.module
), lines AS (
    SELECT p.rank, min(p.step) AS step, p.detail ->> '$.place' AS place, any_value(p.detail) AS detail,
        arg_min(p.module, place_of_call(p.call_order)) AS module,
        list(DISTINCT p.module ORDER BY p.module) AS modules, max(l.looks) AS looks
    FROM parts p
    JOIN looked l ON l.rank = p.rank AND l.model = p.model AND l.module = p.module
    WHERE l.missing AND l.looks >= $least
    GROUP BY p.rank, place
)
SELECT s.rank, s.step, s.module, 1 AS value, 'forward' AS phase, s.place, s.detail ->> '$.text' AS text,
    s.detail ->> '$.target' AS target, s.detail ->> '$.untouched' AS called,
    array_to_string(s.modules, ', ') AS parts, s.looks,
    if(called IS NULL, 'branch', 'untouched') AS what_, 'alone' AS more,
    if(called IS NULL, 'read_it', 'return_it') AS remedy, if(called IS NULL, 'warning', 'error') AS severity
FROM lines s
-- together
SELECT * FROM found
ORDER BY severity, step, rank
