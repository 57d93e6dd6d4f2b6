/*
code = "ME009"
name = "oom-host"
severity = "fatal"
is = ["memory-short"]
phase = "exit"
signal = "memory"
message = "The host ran out of memory at step {step}: {how_}{used_}."
fix = "Lower the batch size or the number of loader workers, or give the job more memory. See which process grew (system_samples)."
seeks = ["exits: status IN ('oom', 'exception')"]
explains = ["killed-by-signal", "python-exception", "dataloader-worker-died", "memory-near-limit"]
[say.how_]
allocation_refused = "an allocation was refused ({refusal})"
struck_by_the_kernel = "the kernel's out-of-memory killer struck {oom_kills} time(s)"
killed_at_the_limit = "it was killed with memory at its limit"
[say.used_]
measured = "; largest use seen {memory_peak_bytes:bytes} of {memory_limit_bytes:bytes}"
[params.shown]
value = 200
unit = "characters"
doc = "Length of a message that is shown."
source = "convention: of this project, as much as two lines show"
[params.kill]
value = 9
doc = "Number of SIGKILL."
source = "arithmetic: POSIX"
[needs]
ended = true
[doc]
what = "SIGKILL came with memory at its limit, or with an oom_kill counted by the kernel during the run. Or the host refused an allocation."
why = "The killer leaves no word in the script's own output."
not_this = "SIGKILL by a person or a scheduler with memory to spare (killed-by-signal); a device without memory (oom-device)."
source = "The exit record: control group counters, samples of the supervisor, MemoryError and torch's CPU allocator message."
*/
WITH ended AS (
    SELECT *, regexp_extract(exception_type, '[A-Za-z]+$') = 'MemoryError'
        OR regexp_matches(exception_message,
            '(?i)(DefaultCPUAllocator: (can.t|not enough)|Cannot allocate memory)') AS refused
    FROM exits
)
SELECT coalesce(e.rank, p.rank, 0) AS rank,
    coalesce(e.step, p.step, (SELECT max(step) + 1 FROM steps WHERE completed), 0) AS step,
    coalesce(e.microbatch, p.microbatch) AS microbatch,
    coalesce(e.phase, p.phase, 'exit') AS phase, coalesce(e.module, p.module) AS module,
        NULL::VARCHAR AS tensor, e.memory_peak_bytes::DOUBLE AS value,
    CASE
        WHEN e.refused AND e.exception_type IS NOT NULL THEN 'allocation_refused'
        WHEN e.oom_kills > 0 THEN 'struck_by_the_kernel'
        ELSE 'killed_at_the_limit'
        END AS how_,
    rtrim(left(split_part(trim(e.exception_message), chr(10), 1), $shown), '. ') AS refusal,
    CASE WHEN e.memory_peak_bytes + e.memory_limit_bytes IS NOT NULL THEN 'measured' END AS used_,
    e.memory_peak_bytes, e.memory_limit_bytes, e.oom_kills
FROM ended e LEFT JOIN last_positions p ON p.rank = coalesce(e.rank, p.rank)
WHERE (e.status = 'oom' AND e.signal = $kill) OR (e.status IN ('exception', 'oom') AND e.refused)
QUALIFY row_number() OVER (ORDER BY p.step, p.rank) = 1
