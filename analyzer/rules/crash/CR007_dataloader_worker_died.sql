/*
code = "CR007"
name = "dataloader-worker-died"
severity = "fatal"
phase = "data"
signal = "exception"
message = "A worker process of the DataLoader died at step {step}: {short}."
fix = "Run once with num_workers=0 to see the worker's own error. {remedy}"
seeks = ["exits: exception_type IS NOT NULL AND status IN ('exception', 'oom')"]
explains = ["python-exception", "killed-by-signal"]
[say.remedy]
shared_memory_full = "A bus error means that shared memory is full: enlarge /dev/shm, or use fewer workers or set_sharing_strategy('file_system')."
killed = "It was killed: look for the out-of-memory killer, and use fewer workers or smaller samples."
native_crash = "It crashed in native code: look at the decoder or extension that the dataset calls."
silent = "Look for os._exit, the out-of-memory killer and native crashes in what the dataset calls."
[needs]
ended = true
[doc]
what = "The exception that ended the run is the one with which torch's DataLoader reports that a worker is gone."
why = "A worker that is killed or exits silently cannot say why. The training only notices that it is missing."
not_this = "An exception raised by the dataset inside a worker. The DataLoader passes its traceback on, and it keeps its own name."
source = "Messages of torch.utils.data."
*/
SELECT coalesce(e.rank, 0) AS rank,
    coalesce(e.step, (SELECT max(step) + 1 FROM steps WHERE completed), 0) AS step, e.microbatch,
    'data' AS phase, NULL::VARCHAR AS module, NULL::VARCHAR AS tensor, NULL::DOUBLE AS value,
        e.exception_message, e.user_frame,
    rtrim(first_line(e.exception_message), '. ') AS short,
    CASE
        WHEN regexp_matches(e.exception_message, '(?i)(bus error|shared memory|shm)')
            THEN 'shared_memory_full'
        WHEN regexp_matches(e.exception_message, '(?i)signal: killed') OR coalesce(e.oom_kills, 0) > 0
            THEN 'killed'
        WHEN regexp_matches(e.exception_message, '(?i)(segmentation fault|aborted)') THEN 'native_crash'
        ELSE 'silent'
        END AS remedy
FROM exits e
WHERE e.exception_type IS NOT NULL AND e.status IN ('exception', 'oom')
  AND (regexp_matches(e.exception_message,
      '(?i)^\s*DataLoader worker \(pid(\(s\))? [0-9, ]+\) (exited unexpectedly|is killed by signal)')
    -- it was gone before the training process had fetched the memory of its last batch
    OR (regexp_matches(e.exception_type,
        '(ConnectionResetError|ConnectionRefusedError|EOFError|BrokenPipeError|FileNotFoundError)$')
        AND contains(e.traceback, 'dataloader.py')
          AND regexp_matches(e.traceback,
              '(multiprocessing/reductions|resource_sharer|multiprocessing/connection)')))
