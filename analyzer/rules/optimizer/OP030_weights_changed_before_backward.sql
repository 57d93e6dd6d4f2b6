/*
code = "OP030"
name = "weights-changed-before-backward"
severity = "fatal"
phase = "backward"
signal = "calls"
message = "At step {step} backward needs weights that an optimizer has changed since the forward: {tensor} [{shape_}] or another of this shape. The step came between the forward and this backward{at_}."
fix = "Make all backwards of one forward first, then all steps. Or compute the loss again after the step. In a GAN run the discriminator once more for the generator's loss, on fakes that are not detached."
seeks = ["exits: phase = 'backward' AND step IS NOT NULL AND exception_message IS NOT NULL"]
explains = ["python-exception"]
[say.at_]
line = " ({place})"
[needs]
ended = true
tables = ["steps"]
[doc]
what = "Torch ends the run because a tensor that backward needs was modified in place. The tensor has the shape of a weight, and an optimizer has stepped after the last forward."
why = "The gradient would be that of weights that no longer exist. Torch refuses it."
not_this = "A step that ran its forward anew and then met a graph of the step before (graph-retained-across-steps). Operations in place within the forward."
source = "The exception, and the order of calls."
*/
WITH raised AS (
    SELECT coalesce(e.rank, 0) AS rank, e.step, e.microbatch, e.user_frame,
        regexp_extract(e.exception_message, 'Tensor \[([0-9, ]+)\]', 1) AS shape_
    FROM exits e
    JOIN known_exceptions k ON k.known = 'inplace-modified'
        AND regexp_matches(e.exception_message, k.pattern)
    WHERE e.phase = 'backward' AND e.step IS NOT NULL
), order_ AS (
    -- what the script called in this step and the one before, ending with the backward that failed
    SELECT r.rank, string_agg(s.calls, '' ORDER BY s.time_ns) AS calls
    FROM raised r
    JOIN steps s ON s.rank = r.rank AND s.step BETWEEN r.step - 1 AND r.step AND s.calls IS NOT NULL
    GROUP BY r.rank
)
SELECT r.rank, r.step, r.microbatch, p.module, p.tensor, NULL::DOUBLE AS value, r.shape_,
    regexp_extract(r.user_frame, '^(.*:[0-9]+) in ', 1) AS place, CASE WHEN place <> '' THEN 'line' END AS at_
FROM raised r
JOIN order_ o ON o.rank = r.rank AND regexp_matches(o.calls, 's[^f]*b$')
JOIN parameters p ON p.rank = r.rank AND p.requires_grad
    AND r.shape_ IN (array_to_string(p.shape, ', '), array_to_string(list_reverse(p.shape), ', '))
QUALIFY row_number() OVER (PARTITION BY r.rank ORDER BY place_of_call(p.call_order), p.tensor_id) = 1
ORDER BY r.step, r.rank
