/*
code = "MO036"
name = "module-repeated"
severity = "error"
phase = "forward"
signal = "source"
message = "{place} makes one {made} and puts it {value} times into {holder_} ({text}). These {value} layers share their weights."
fix = "Make a module for each layer: [{element} for _ in range(n)], or a deep copy."
seeks = ["events: event = 'module-repeated'"]
[say.holder_]
root = "the root module"
named = "{module}"
[needs]
tables = ["events", "modules"]
[doc]
what = "A list of one new module is multiplied ([Block()] * n), and the model holds that module several times in one container."
why = "The list repeats one object. The model has the weights of a single layer, and is called several times with them."
not_this = "Modules without parameters, such as activations. One layer that the script calls several times, or names by a variable before it repeats it: weights shared on purpose."
source = "Python's documentation: multiplying a list repeats references to its elements. Linkedin/Liger-Kernel #269."
*/
SELECT e.rank, e.step, m.module, (e.detail ->> '$.times')::INT AS value, e.detail ->> '$.place' AS place,
    e.detail ->> '$.class' AS made, e.detail ->> '$.text' AS text, e.detail ->> '$.element' AS element,
    if(m.module = '', 'root', 'named') AS holder_
FROM events e
JOIN modules m ON m.rank = e.rank AND m.module_id = e.module_id
WHERE e.event = 'module-repeated'
ORDER BY e.step, e.rank, m.module_id
