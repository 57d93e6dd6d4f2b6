/*
code = "ME009"
name = "oom-host"
severity = "fatal"
is = ["memory-short"]
phase = "exit"
signal = "memory"
message = "The host ran out of memory at step {step}: {how}."
fix = "Lower the batch size or the number of loader workers, or give the job more memory. See which process grew (system_samples)."
explains = ["killed-by-signal", "python-exception", "dataloader-worker-died", "memory-near-limit"]
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
    CASE WHEN e.refused
        AND e.exception_type IS NOT NULL THEN 'an allocation was refused ('
            || rtrim(left(split_part(trim(e.exception_message),
            chr(10), 1),
            $shown),
            '. ') || ')'
        WHEN e.oom_kills > 0 THEN 'the kernel''s out-of-memory killer struck ' || e.oom_kills || ' time(s)'
        ELSE 'it was killed with memory at its limit' END
        || coalesce('; largest use seen ' || in_gb(e.memory_peak_bytes) || ' GB of '
            || in_gb(e.memory_limit_bytes) || ' GB',
            '') AS how,
    e.memory_peak_bytes, e.memory_limit_bytes, e.oom_kills
FROM ended e LEFT JOIN last_positions p ON p.rank = coalesce(e.rank, p.rank)
WHERE (e.status = 'oom' AND e.signal = $kill) OR (e.status IN ('exception', 'oom') AND e.refused)
QUALIFY row_number() OVER (ORDER BY p.step, p.rank) = 1
