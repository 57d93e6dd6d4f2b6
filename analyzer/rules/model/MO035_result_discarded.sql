/*
code = "MO035"
name = "result-discarded"
severity = "error"
phase = "forward"
signal = "source"
message = "At {place} the result of {text} is thrown away. {called} returns a new tensor, and {target} stays as it is{more}."
fix = "{remedy}"
[say.remedy]
assign_or_in_place = "Take the result: {target} = {text}. Or call {called}_, which changes the tensor itself."
assign = "Take the result: {target} = {text}."
[say.more]
alone = ""
others = "; {others} other lines do the same"
[needs]
tables = ["events"]
[doc]
what = "A line of the model, or of a function that trains it, calls an operator such as masked_fill, clamp or softmax as a statement. Its result is assigned to nothing."
why = "Such an operator changes no tensor. The mask, the bound or the activation is written in the source and never applied."
not_this = "Calls with out= or inplace=True. Names that do something elsewhere too, such as add, copy and normalize. Functions that nothing in the file calls from forward or from the training loop."
source = "PyTorch's documentation: operators whose name ends in an underscore work in place, the others return a new tensor."
*/
SELECT e.rank, min(e.step) AS step, arg_min(m.module, place_of_call(m.call_order)) AS module,
    count(*) AS value,
    'forward' AS phase, arg_min(e.detail ->> '$.place', e.time_ns) AS place,
    arg_min(e.detail ->> '$.text', e.time_ns) AS text, arg_min(e.detail ->> '$.target', e.time_ns) AS target,
    arg_min(e.detail ->> '$.called', e.time_ns) AS called,
    count(*) - 1 AS others, if(others > 0, 'others', 'alone') AS more,
    if(arg_min((e.detail ->> '$.method')::BOOL AND (e.detail ->> '$.in_place')::BOOL, e.time_ns),
        'assign_or_in_place', 'assign') AS remedy
FROM events e
LEFT JOIN modules m ON m.rank = e.rank AND m.module_id = e.module_id
WHERE e.event = 'result-discarded'
GROUP BY e.rank
ORDER BY step, e.rank
