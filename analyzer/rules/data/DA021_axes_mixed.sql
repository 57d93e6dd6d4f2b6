/*
code = "DA021"
name = "axes-mixed"
severity = "error"
phase = "forward"
signal = "event"
message = "{what_}"
fix = "{remedy_}"
seeks = ["events: event = 'axes-mixed' OR event = 'softmax-of-queries'"]
explains = ["nothing-learnt"]
[say.place_]
outside = "code outside the modules"
root = "the model ({class_name})"
module = "{module} ({class_name})"
[say.again_]
views = "; {views} views of this step do such a thing"
[say.what_]
view = "In {place_} a view makes {made} of {given}. The axis of size {value} goes to another place, but a view does not move elements. It regroups them in the order of memory, so elements of different positions are mixed{again_}."
queries = "In {place_} a softmax goes along the queries of a causal attention ({value} of this step do). The weights of each key sum to 1 over later positions, and those of a query to anything. So a position gets parts that depend on what comes after it."
[say.remedy_]
move = "Move the axis by transpose or permute: q.view(B, L, H, D).transpose(1, 2) for heads of attention. Use view or reshape only to split an axis or to join neighbours. Transpose heads back before they are joined again."
along_keys = "Let the softmax go along the keys, the last axis of the scores: softmax(scores, dim=-1)."
[needs]
tables = ["events"]
[doc]
what = "A softmax of an attention with a causal mask goes along its queries. Or the result of a view or reshape in the forward has an axis of the input in another place. Examples are a sequence with the heads of attention before it and joined heads that were not moved back. Another is channels and time exchanged. The view is found in the autograd graph. Axes are followed from the operators that make them. So a view that splits or joins is told apart from one that mixes."
why = "Values of different time steps, channels or samples get into one row; the model trains on, worse than it could."
not_this = "Axes that are split, joined, transposed or permuted (heads, channel shuffle, pixel shuffle, windows, patches, groups). Frames that are stacked, relative shifts of padded tensors. Axes of which it is not known how they were made. A warning where as many channels as samples change places with samples times frames: the frames may join the channels."
source = "Arithmetic of views: elements keep their order in memory."
*/
WITH views AS (
    SELECT e.rank, e.step, m.module, m.class_name, (e.detail ->> '$.moved')::BIGINT AS value,
        (e.detail ->> '$.views')::INT AS views,
        CAST(json_extract(e.detail, '$.given') AS BIGINT[]) AS shape_before,
        CAST(json_extract(e.detail, '$.made') AS BIGINT[]) AS shape_after,
        replace(json_extract(e.detail, '$.given')::VARCHAR, ',', ', ') AS given,
        replace(json_extract(e.detail, '$.made')::VARCHAR, ',', ', ') AS made
    FROM events e LEFT JOIN modules m ON m.rank = e.rank AND m.module_id = e.module_id
    WHERE e.event = 'axes-mixed'
), found AS (
    -- samples times frames by as many channels as there are samples: frames that join the channels look so
    SELECT *, shape_before[1] > shape_before[2] AND shape_before[1] % shape_before[2] = 0
        AND shape_after[1] = shape_before[2] AND shape_after[2] = shape_before[1] AS either
    FROM views
)
SELECT rank, step, module, class_name, value, given, made, views,
    CASE WHEN either THEN 'warning' ELSE 'error' END AS severity,
    CASE WHEN module IS NULL THEN 'outside' WHEN module = '' THEN 'root' ELSE 'module' END AS place_,
    CASE WHEN views > 1 THEN 'views' END AS again_, 'view' AS what_, 'move' AS remedy_
FROM found
QUALIFY row_number() OVER (PARTITION BY rank, module, given, made ORDER BY step) = 1
UNION ALL BY NAME
SELECT e.rank, e.step, m.module, m.class_name, (e.detail ->> '$.softmaxes')::BIGINT AS value,
    'error' AS severity,
    CASE WHEN m.module IS NULL THEN 'outside' WHEN m.module = '' THEN 'root' ELSE 'module' END AS place_,
    'queries' AS what_, 'along_keys' AS remedy_
FROM events e LEFT JOIN modules m ON m.rank = e.rank AND m.module_id = e.module_id
WHERE e.event = 'softmax-of-queries'
QUALIFY row_number() OVER (PARTITION BY e.rank ORDER BY e.step) = 1
ORDER BY step, rank
