/*
code = "ME010"
name = "oom-device"
severity = "fatal"
is = ["memory-short"]
phase = "forward"
signal = "memory"
message = "The device ran out of memory{at_}{in_module}: {short}.{used}{holds}"
fix = "Lower the batch size or the sequence length, recompute activations (torch.utils.checkpoint), or use lower precision. If the memory grew from step to step, find out what keeps tensors alive."
explains = ["python-exception", "memory-near-limit"]
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
    SELECT rank, device, string_agg(who || ' ' || bytes_in_words(bytes), ', ' ORDER BY bytes DESC) AS holds
    FROM (SELECT rank, device, coalesce(place, 'blocks without a stack') AS who, sum(bytes) AS bytes
        FROM memory_blocks
        WHERE source = 'cuda' AND category = 'allocated'
        GROUP BY rank, device, place
        QUALIFY row_number() OVER (PARTITION BY rank, device ORDER BY sum(bytes) DESC) <= $shown)
    GROUP BY rank, device
)
SELECT coalesce(e.rank, 0) AS rank,
    coalesce(e.step, (SELECT max(step) + 1 FROM steps WHERE completed), 0) AS step, e.microbatch,
    coalesce(e.phase, 'forward') AS phase,
    ' at step ' || coalesce(e.step, (SELECT max(step) + 1 FROM steps WHERE completed), 0) AS at_,
    e.module, NULL::VARCHAR AS tensor, last.cuda_peak_bytes::DOUBLE AS value,
    rtrim(first_line(e.exception_message), '. ') AS short,
    CASE
        WHEN e.module IS NULL THEN ''
        WHEN e.module = '' THEN ' in the root module'
        ELSE ' in module ' || e.module
        END
        || CASE WHEN e.module_class IS NULL THEN '' ELSE ' (' || e.module_class || ')' END AS in_module,
    coalesce(' Tensors took at most ' || in_gb(last.cuda_peak_bytes) || ' GB in step ' || last.step || '.',
        '') AS used,
    coalesce(' In memory then: ' || b.holds || '.',
        '')
            || coalesce(' Growing was ' || g.owner || ', by ' || bytes_in_words(g.bytes_per_step)
                || ' a step since step ' || g.since_step || '.',
        '') AS holds,
    e.user_frame, last.cuda_allocated_bytes, last.cuda_reserved_bytes, last.cuda_peak_bytes
FROM exits e
LEFT JOIN (SELECT *
    FROM steps
    WHERE completed
    QUALIFY row_number() OVER (PARTITION BY rank ORDER BY step DESC) = 1) last ON last.rank = coalesce(e.rank,
        0)
LEFT JOIN (
    SELECT rank, string_agg(category || ' ' || bytes_in_words(bytes), ', ' ORDER BY bytes DESC) AS holds
    FROM (SELECT rank, category, sum(bytes) AS bytes
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
SELECT r.rank, 0 AS step, 'forward' AS phase, d.allocated_bytes::DOUBLE AS value, '' AS at_, '' AS in_module,
    bytes_in_words(r.asked) || ' were asked for on ' || r.device AS short,
    ' The allocator held ' || bytes_in_words(d.reserved_bytes) || ', ' || bytes_in_words(d.allocated_bytes)
        || ' of it in use.' AS used,
    coalesce(' In memory then: ' || h.holds || '.', '') AS holds, d.allocated_bytes AS cuda_allocated_bytes,
        d.reserved_bytes AS cuda_reserved_bytes, d.peak_bytes AS cuda_peak_bytes
FROM refused r
JOIN device_memory d ON d.rank = r.rank AND d.device = r.device
LEFT JOIN holders h ON h.rank = r.rank AND h.device = r.device
ORDER BY step, rank
