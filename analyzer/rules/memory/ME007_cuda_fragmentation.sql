/*
code = "ME007"
name = "cuda-fragmentation"
severity = "fatal"
phase = "exit"
signal = "exception"
message = "Out of device memory{at_} although the allocator held {what_} in one piece. {detail_}"
fix = "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; bring inputs to a few sizes, so that blocks fit again."
seeks = [
    [
        "exits: status IN ('oom', 'exception')",
        "memory_events: action = 'oom'",
    ],
]
explains = ["oom-device", "python-exception"]
[say.at_]
at_step = " at step {step}"
[say.what_]
told_by_torch = "{unused} unused: it asked for {asked}"
seen_in_the_snapshot = "{free_bytes:bytes} unused: it asked for {asked_bytes:bytes}"
[say.detail_]
at_a_line = "{user_frame}"
largest_piece = "The largest piece was {largest_free_bytes:bytes}."
[params.kib_in_mib]
value = 1024
unit = "KiB"
doc = "In a mebibyte."
source = "arithmetic: a unit"
[params.kib_in_gib]
value = 1048576
unit = "KiB"
doc = "In a gibibyte."
source = "arithmetic: a unit"
[params.kib_in_tib]
value = 1073741824
unit = "KiB"
doc = "In a tebibyte."
source = "arithmetic: a unit"
[params.bytes_per_kib]
value = 1024.0
unit = "bytes"
doc = "In a kibibyte."
source = "arithmetic: a unit"
[needs]
ended = true
[doc]
what = "torch's out-of-memory message, or a snapshot of the allocator, shows more reserved but unallocated memory than was asked for. All its pieces are smaller."
why = "Memory in pieces that are too small is of no use. Sizes that change from step to step cut it up."
not_this = "Devices that are truly full."
source = "Message of PyTorch's CUDA allocator: reserved but unallocated."
*/
WITH told AS (
    SELECT e.*,
        regexp_extract(e.exception_message, 'Tried to allocate ([0-9.]+) ([KMGT]i?B)',
            ['amount', 'unit']) AS asked,
        regexp_extract(e.exception_message, '([0-9.]+) ([KMGT]i?B) is reserved by PyTorch but unallocated',
            ['amount', 'unit']) AS unused
    FROM exits e WHERE e.status IN ('oom', 'exception')
), sizes AS (
    SELECT *,
        CASE left(asked.unit, 1)
            WHEN 'K' THEN 1
            WHEN 'M' THEN $kib_in_mib
            WHEN 'G' THEN $kib_in_gib
            ELSE $kib_in_tib
            END * try_cast(asked.amount AS DOUBLE) AS asked_kib,
        CASE left(unused.unit, 1)
            WHEN 'K' THEN 1
            WHEN 'M' THEN $kib_in_mib
            WHEN 'G' THEN $kib_in_gib
            ELSE $kib_in_tib
            END * try_cast(unused.amount AS DOUBLE) AS unused_kib
    FROM told
)
SELECT coalesce(rank, 0) AS rank,
    coalesce(step, (SELECT max(step) + 1 FROM steps WHERE completed), 0) AS step, microbatch, phase, module,
    unused_kib AS value, 'at_step' AS at_, 'told_by_torch' AS what_,
    unused.amount || ' ' || unused.unit AS unused, asked.amount || ' ' || asked.unit AS asked,
    CASE WHEN user_frame IS NOT NULL THEN 'at_a_line' END AS detail_, user_frame
FROM sizes WHERE asked_kib > 0 AND unused_kib >= asked_kib
UNION ALL BY NAME
SELECT e.rank, 0 AS step, 'forward' AS phase, d.free_bytes / $bytes_per_kib AS value,
    'seen_in_the_snapshot' AS what_, d.free_bytes, e.bytes AS asked_bytes,
    'largest_piece' AS detail_, d.largest_free_bytes
FROM memory_events e JOIN device_memory d ON d.rank = e.rank AND d.device = e.device
WHERE e.action = 'oom' AND d.free_bytes >= e.bytes AND d.largest_free_bytes < e.bytes
QUALIFY row_number() OVER (PARTITION BY e.rank, e.device ORDER BY e.event_id DESC) = 1
