/*
code = "DI012"
name = "collective-not-joined"
severity = "error"
phase = "exit"
signal = "collective"
message = "{waiting_} {did_} call {number} of group {group_}, {op}{of_}{at_}, when the dumps were written; {absent_}{proof_}."
fix = "Compare the line in which the others wait with the line that the missing rank has reached. Usual causes are a branch that not every rank takes and a rank with fewer batches. Another is an exception that only one rank raised. Where it made no call at all, look at its own output and stack."
seeks = ["calls_missed: number IS NOT NULL"]
explains = ["hang", "python-exception", "killed-by-signal", "native-crash"]
[say.waiting_]
one = "Rank {waiting}"
several = "Ranks {waiting}"
[say.did_]
waited_in = "waited in"
had_last_made = "had last made"
[say.of_]
elements = " of {numel} {dtype}"
[say.at_]
line = " at {place}"
[say.ranks_]
one = "rank {ranks}"
several = "ranks {ranks}"
[say.absent_]
no_dump = "there is no dump of {ranks_}"
no_call_at_all = "{ranks_} had made no call at all"
waits_in_another = "{ranks_} had not made it: waiting in call {number} of group {group_}, {op}{at_}"
call_before = "{ranks_} had not made it: last made call {number} of group {group_}, {op}{at_}"
[say.proof_]
out_of_time = "; it had run out of its time"
on_the_way = ". Unless the run hung, they were only on the way"
[needs]
tables = ["process_groups", "collectives"]
[doc]
what = "Dumps of the Flight Recorder show that ranks of a group wait in a call. Another rank of the group had not made it when its dump was written, or left no dump. This is an error where a call had timed out, and advice where the dumps do not prove that."
why = "A collective ends only when all ranks of its group have joined it."
not_this = "A call that has ended on any rank. Dumps that are written while the run goes on, unless a call is overdue. Calls that differ between ranks (collective-mismatch). Sends and receives between two ranks."
source = "Semantics of torch.distributed; format of torch's FlightRecorder.hpp."
*/
WITH heard AS (
    SELECT max(time_ns) AS last_ns FROM collectives
), missed AS (
    SELECT "group", number, min(time_ns) AS since_ns, any_value(waiting) AS waiting, any_value(told) AS told,
        bool_or(dumped AND NOT waits) AS idle, bool_or(dumped) AS any_dumped,
            any_value(deadline_ns) AS deadline_ns
    FROM calls_missed GROUP BY "group", number
), first_ AS (
    -- a rank that waits in no call is the one that the others wait for; where all wait for each other, whose
    -- call is the oldest
    SELECT * FROM missed QUALIFY row_number() OVER (ORDER BY idle DESC, any_dumped DESC, since_ns, number) = 1
), parts AS (
    -- ranks that are missing at one place stand together in the sentence
    SELECT CASE WHEN NOT m.dumped THEN 'no_dump' WHEN m.at_op IS NULL THEN 'no_call_at_all'
            WHEN m.waits THEN 'waits_in_another' ELSE 'call_before' END AS absent_,
        CASE WHEN count(*) > 1 THEN 'several' ELSE 'one' END AS ranks_,
        rank_stretches(list(m.rank)) AS ranks, min(m.rank) AS rank, m.dumped, m.at_number AS number,
        m.at_group AS group_, m.at_op AS op, m.at_place AS place,
        CASE WHEN m.at_place IS NOT NULL THEN 'line' END AS at_
    FROM calls_missed m JOIN first_ f ON f."group" = m."group" AND f.number = m.number
    GROUP BY m.dumped, m.waits, m.at_group, m.at_number, m.at_op, m.at_place
), told AS (
    SELECT min(p.rank) AS first_rank, list(p ORDER BY p.dumped DESC, p.rank) AS absent_ FROM parts p
), call AS (
    SELECT c.op, c.numel, c.dtype, c.place,
        CASE WHEN c.numel IS NOT NULL AND c.dtype IS NOT NULL THEN 'elements' END AS of_,
        CASE WHEN c.place IS NOT NULL THEN 'line' END AS at_
    FROM collective_calls c
    JOIN first_ f ON f."group" = c."group" AND f.number = c.number
    ORDER BY c.rank LIMIT 1
), proof AS (
    SELECT coalesce((SELECT status = 'hang' FROM exits), false) AS hung
), waiting AS (
    SELECT rank_stretches(f.waiting) AS waiting,
        CASE WHEN len(f.waiting) > 1 THEN 'several' ELSE 'one' END AS waiting_
    FROM first_ f
)
SELECT t.first_rank AS rank, NULL::BIGINT AS step, f.number, f."group" AS group_, f.number AS value, w.*,
    CASE WHEN f.told THEN 'waited_in' ELSE 'had_last_made' END AS did_, c.*, t.absent_,
    CASE WHEN NOT hung THEN 'on_the_way' WHEN f.deadline_ns <= last_ns THEN 'out_of_time' END AS proof_,
    CASE WHEN NOT hung THEN 'warning' END AS severity
FROM first_ f, told t, call c, waiting w, proof, heard
