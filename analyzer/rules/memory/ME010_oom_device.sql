/*
code = "ME010"
name = "oom-device"
severity = "fatal"
is = ["memory-short"]
phase = "forward"
signal = "memory"
message = "The device ran out of memory{at_}{in_module_}: {what_}.{used_}{memory_}{grows_}"
fix = "Lower the batch size or the sequence length, recompute activations (torch.utils.checkpoint), or use lower precision. If the memory grew from step to step, find out what keeps tensors alive."
seeks = [
    [
        "exits: status IN ('oom', 'exception')",
        "memory_events: action = 'oom'",
    ],
]
explains = ["python-exception", "memory-near-limit"]
[say.at_]
at_step = " at step {step}"
[say.in_module_]
root = " in the root module"
root_classed = " in the root module ({module_class})"
named = " in module {module}"
classed = " in module {module} ({module_class})"
[say.what_]
raised = "{short}"
asked = "{asked_bytes:bytes} were asked for on {device}"
[say.used_]
tensors_in_a_step = " Tensors took at most {cuda_peak_bytes:bytes} in step {last_step}."
allocator = " The allocator held {cuda_reserved_bytes:bytes}, {cuda_allocated_bytes:bytes} of it in use."
[say.held_]
of_a_category = "{category} {bytes:bytes}"
of_a_line = "{place} {bytes:bytes}"
without_a_stack = "blocks without a stack {bytes:bytes}"
[say.memory_]
held = " In memory then: {held_}."
[say.grows_]
growing = " Growing was {holder}, by {bytes_per_step:bytes} a step since step {since_step}."
[params.shown]
value = 3
unit = "owners"
doc = "Owners of memory that a sentence names."
source = "convention: of this project, more are not read"
[needs]
ended = true
[doc]
what = "The exception that ended the run is torch's OutOfMemoryError, or a device's message that its memory is exhausted. Or a snapshot of the allocator holds an allocation that found no memory."
why = "It names the allocation that was refused, not what filled the memory before."
not_this = "Memory of the host (oom-host)."
source = "The exit record. Tensors that were alive when the exception came. What had grown before. Blocks of a snapshot by the line that allocated them."
*/
WITH refused AS (
    -- in a snapshot: the last allocation that found no memory, and what was in use then
    SELECT rank, device, arg_max(bytes, event_id) AS asked, max(event_id) AS event_id
    FROM memory_events
    WHERE action = 'oom'
    GROUP BY rank, device
), holders AS (
    SELECT rank, device, list({'held_': CASE WHEN place IS NULL THEN 'without_a_stack' ELSE 'of_a_line' END,
        'category': NULL::VARCHAR, 'place': place, 'bytes': bytes} ORDER BY bytes DESC) AS held_
    FROM (SELECT rank, device, place, sum(bytes)::BIGINT AS bytes
        FROM memory_blocks
        WHERE source = 'cuda' AND category = 'allocated'
        GROUP BY rank, device, place
        QUALIFY row_number() OVER (PARTITION BY rank, device ORDER BY sum(bytes) DESC) <= $shown)
    GROUP BY rank, device
)
SELECT coalesce(e.rank, 0) AS rank,
    coalesce(e.step, (SELECT max(step) + 1 FROM steps WHERE completed), 0) AS step, e.microbatch,
    coalesce(e.phase, 'forward') AS phase,
    'at_step' AS at_,
    e.module, NULL::VARCHAR AS tensor, last.cuda_peak_bytes::DOUBLE AS value,
    'raised' AS what_, rtrim(first_line(e.exception_message), '. ') AS short, e.module_class,
    CASE
        WHEN e.module = '' THEN CASE WHEN e.module_class IS NULL THEN 'root' ELSE 'root_classed' END
        WHEN e.module IS NOT NULL THEN CASE WHEN e.module_class IS NULL THEN 'named' ELSE 'classed' END
        END AS in_module_,
    CASE WHEN last.cuda_peak_bytes IS NOT NULL THEN 'tensors_in_a_step' END AS used_, last.step AS last_step,
    b.held_, CASE WHEN b.held_ IS NOT NULL THEN 'held' END AS memory_,
    CASE WHEN g.bytes_per_step IS NOT NULL AND g.since_step IS NOT NULL THEN 'growing' END AS grows_,
    g.owner AS holder, g.bytes_per_step, g.since_step,
    e.user_frame, last.cuda_allocated_bytes, last.cuda_reserved_bytes, last.cuda_peak_bytes
FROM exits e
LEFT JOIN (SELECT *
    FROM steps
    WHERE completed
    QUALIFY row_number() OVER (PARTITION BY rank ORDER BY step DESC) = 1) last ON last.rank = coalesce(e.rank,
        0)
LEFT JOIN (
    SELECT rank, list({'held_': 'of_a_category', 'category': category, 'place': NULL::VARCHAR, 'bytes': bytes}
        ORDER BY bytes DESC) AS held_
    FROM (SELECT rank, category, sum(bytes)::BIGINT AS bytes
        FROM memory_blocks
        WHERE "trigger" = 'oom' AND source = 'python'
        GROUP BY rank, category)
    GROUP BY rank
) b ON b.rank = coalesce(e.rank, 0)
LEFT JOIN (
    SELECT *
    FROM memory_growing
    WHERE steady AND looks >= 2
    QUALIFY row_number() OVER (PARTITION BY rank ORDER BY bytes_per_step DESC, length DESC) = 1
) g ON g.rank = coalesce(e.rank, 0)
WHERE e.status IN ('oom', 'exception')
  AND (regexp_extract(e.exception_type, '[A-Za-z]+$') = 'OutOfMemoryError'
      OR regexp_matches(e.exception_message, '(?i)^(CUDA|HIP|MPS|XPU|NPU)( error:| backend)? out of memory'))
UNION ALL BY NAME
SELECT r.rank, 0 AS step, 'forward' AS phase, d.allocated_bytes::DOUBLE AS value,
    'asked' AS what_, r.asked AS asked_bytes, r.device, 'allocator' AS used_,
    h.held_, CASE WHEN h.held_ IS NOT NULL THEN 'held' END AS memory_,
    d.allocated_bytes AS cuda_allocated_bytes,
    d.reserved_bytes AS cuda_reserved_bytes, d.peak_bytes AS cuda_peak_bytes
FROM refused r
JOIN device_memory d ON d.rank = r.rank AND d.device = r.device
LEFT JOIN holders h ON h.rank = r.rank AND h.device = r.device
ORDER BY step, rank
