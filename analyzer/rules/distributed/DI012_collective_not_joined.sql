/*
code = "DI012"
name = "collective-not-joined"
severity = "error"
phase = "exit"
signal = "collective"
message = "{waiting} {did} call {number} of group {group_}, {call}, when the dumps were written; {absent}{proof}."
fix = "Compare the line in which the others wait with the line that the missing rank has reached. Usual causes are a branch that not every rank takes and a rank with fewer batches. Another is an exception that only one rank raised. Where it made no call at all, look at its own output and stack."
explains = ["hang", "python-exception", "killed-by-signal", "native-crash"]
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
), same AS (
    -- ranks that are missing at one place stand together in the sentence
    SELECT m.dumped, m.waits, m.at_group, m.at_number, m.at_op, m.at_place, list(m.rank) AS ranks,
        min(m.rank) AS rank
    FROM calls_missed m JOIN first_ f ON f."group" = m."group" AND f.number = m.number
    GROUP BY m.dumped, m.waits, m.at_group, m.at_number, m.at_op, m.at_place
), sentences AS (
    SELECT rank, dumped, CASE WHEN NOT dumped THEN 'there is no dump of ' || ranks_in_words(ranks)
        WHEN at_op IS NULL THEN ranks_in_words(ranks) || ' had made no call at all'
        ELSE ranks_in_words(ranks) || ' had not made it: ' || CASE
            WHEN waits THEN 'waiting in '
            ELSE 'last made '
            END
            || 'call ' || at_number || ' of group ' || at_group || ', ' || at_op
                || coalesce(' at ' || at_place,
                '')
                END AS words
    FROM same
), told AS (
    SELECT min(s.rank) AS first_rank, string_agg(s.words, '; ' ORDER BY s.dumped DESC, s.rank) AS words
    FROM sentences s
), call AS (
    SELECT c.op || coalesce(' of ' || c.numel || ' ' || c.dtype, '') || coalesce(' at ' || c.place,
        '') AS words
    FROM collective_calls c
    JOIN first_ f ON f."group" = c."group" AND f.number = c.number
    ORDER BY c.rank LIMIT 1
), proof AS (
    SELECT coalesce((SELECT status = 'hang' FROM exits), false) AS hung
), waiting AS (
    SELECT ranks_in_words(waiting) AS words FROM first_
)
SELECT t.first_rank AS rank, NULL::BIGINT AS step, f.number, f."group" AS group_, f.number AS value,
    upper(w.words[1]) || w.words[2:] AS waiting,
    CASE WHEN f.told THEN 'waited in' ELSE 'had last made' END AS did, c.words AS call, t.words AS absent,
    CASE WHEN hung
        AND f.deadline_ns <= last_ns THEN '; it had run out of its time'
            WHEN hung THEN ''
            ELSE '. Unless the run hung, they were only on the way'
            END AS proof,
    CASE WHEN NOT hung THEN 'warning' END AS severity
FROM first_ f, told t, call c, waiting w, proof, heard
