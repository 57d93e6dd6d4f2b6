/*
code = "CR004"
name = "hang"
severity = "fatal"
phase = "exit"
signal = "progress"
message = "The run hung{at_}, in the {phase} phase{in_module_}: {what_}{at_places_}."
fix = "Read where each thread stood in the recorded stacks. Usual places are a lock taken before a fork and a queue with no other side. Others are a collective that one rank never enters, and a worker that waits for itself."
seeks = ["exits: status IN ('hang', 'signal') OR exception_type = 'KeyboardInterrupt'"]
explains = ["killed-by-signal", "python-exception"]
[say.at_]
at_step = " at step {step}"
[say.in_module_]
root = " of the root module"
named = " of module {module}"
[say.what_]
stood_still = "no progress for {still_s} s, then ended by {ended_by}"
waited_between_ranks = "calls between ranks could not end"
noted = "{note}"
no_progress = "no progress was made"
[say.places_]
of_one_rank = "rank {ranks}: {place}"
of_some_ranks = "ranks {ranks}: {place}"
of_many_ranks = "ranks {first} to {last} ({n}): {place}"
[say.at_places_]
stood_at = " ({places_})"
[params.steps]
value = 20
unit = "usual steps"
doc = "Standstill before a signal ended the run that counts as a hang."
source = "convention: of this project, far more than the longest pause between steps that a busy machine makes"
[params.least_ns]
value = 1e10
unit = "ns"
doc = "And its length at least."
source = "convention: of this project, shorter pauses happen in runs that are well: a checkpoint, a first batch"
[params.busy]
value = 10
unit = "% of a core"
doc = "Processor time of the script from which it is at work, however slowly; one that waits for itself uses none."
source = "convention: of this project, a process that waits uses less than a hundredth of a core. Ten of them leave room for its own threads"
[params.counted]
value = 5
unit = "steps"
doc = "Steps from which a usual length is known."
source = "convention: of this project, fewer are warm-up"
[params.places]
value = 8
unit = "places"
doc = "Places, or ranks, that a sentence names."
source = "convention: of this project, more are not read"
[params.ns_per_s]
value = 1e9
unit = "ns"
doc = "In a second."
source = "arithmetic: a unit"
[params.shown]
value = 4000
unit = "characters"
doc = "Length of the native stacks that are kept."
source = "convention: of this project, twice as much as a screen shows"
[needs]
ended = true
[doc]
what = "For the time limit of a hang no rank made progress. No hook was called and nothing was written. It never went on, and somebody had to end it. Or it was ended sooner, after twenty usual steps and ten seconds without progress."
why = "A hanging run ends by hand or by its time limit, and the reason then given is not the cause."
not_this = "Long evaluations, checkpoints and loading that go on afterwards. A run that is ended in the middle of its work. A script that still ran, or waited for a processor, in most samples of the time without progress. Then the machine was busy."
source = "The supervisor's watch over breadcrumbs and journals: by default 20 usual steps, at least five minutes."
*/
WITH usual AS (
    SELECT median(step_ns) AS step_ns, count(*) AS steps, max(time_ns) AS last_ns
    FROM steps
    WHERE completed AND step_ns > 0
), last_ AS (
    SELECT greatest((SELECT last_ns FROM usual), (SELECT max(time_ns) FROM last_positions)) AS sign_ns
), work AS (
    SELECT count(*) AS samples, count(CASE WHEN runnable > 0 OR cpu_percent >= $busy THEN 1 END) AS working
    FROM system_samples WHERE time_ns > (SELECT sign_ns FROM last_)
), stood AS (
    SELECT e.ended_ns - greatest(u.last_ns, (SELECT max(time_ns) FROM last_positions)) AS still_ns,
        coalesce(e.signal_name, 'Ctrl-C') AS ended_by
    FROM exits e CROSS JOIN usual u
    WHERE ((e.status = 'signal' AND ends_from_outside(e.signal))
        OR e.exception_type = 'KeyboardInterrupt')
      AND u.steps >= $counted
      AND (SELECT count(*) FROM last_positions WHERE phase <> 'exit') > 0
      AND e.ended_ns - greatest(u.last_ns,
          (SELECT max(time_ns) FROM last_positions)) > greatest($steps * u.step_ns, $least_ns)
      AND (SELECT 2 * working <= samples FROM work)
), calls AS (
    SELECT rank, arg_max(op, (step, seq)) AS op, arg_max(place, (step, seq)) AS place
    FROM collective_calls WHERE blocking AND waited_ns IS NULL AND error IS NULL GROUP BY rank
), stacks_ AS (
    SELECT p.rank,
        split_part(split_part(e.native_stack, format('rank={:04d}-hang', p.rank), 2), 'rank=', 1) AS text
    FROM exits e JOIN last_positions p ON true
), frames AS (
    SELECT rank, list_filter(
        regexp_extract_all(regexp_replace(text, '(?s)^.*Current thread', ''),
            'File "[^"]+", line \d+ in \S+'),
        lambda f: NOT regexp_matches(f, '-packages/|/lib/python3|"<|/firstfault/')
    )[1] AS frame FROM stacks_
), places AS (
    SELECT p.rank, coalesce(
        nullif(concat_ws(', ', c.place, c.op), ''),
        regexp_replace(f.frame, '^File "(?:.*/)?([^"]+)", line (\d+) in (\S+)$', '\1:\2 in \3')
    ) AS place
    FROM (SELECT DISTINCT rank FROM last_positions WHERE phase <> 'exit') p
    LEFT JOIN calls c USING (rank) LEFT JOIN frames f USING (rank)
), listed AS (
    -- as many as a sentence holds: of a thousand ranks most stand at the same place
    SELECT list({'places_': CASE WHEN n = 1 THEN 'of_one_rank' WHEN n <= $places THEN 'of_some_ranks'
            ELSE 'of_many_ranks' END, 'ranks': CASE WHEN n <= $places THEN array_to_string(ranks, ', ') END,
        'first': first, 'last': last, 'n': n, 'place': place} ORDER BY first) AS places_
    FROM (
        SELECT place, list(rank ORDER BY rank) AS ranks, min(rank) AS first, max(rank) AS last, count(*) AS n
        FROM places WHERE place IS NOT NULL GROUP BY place ORDER BY n, first LIMIT $places
    )
)
SELECT coalesce(p.rank, 0) AS rank,
    coalesce(p.step, (SELECT max(step) + 1 FROM steps WHERE completed),
        CASE WHEN NOT EXISTS (FROM process_groups) THEN 0 END) AS step,
    CASE WHEN p.step IS NOT NULL OR EXISTS (FROM steps WHERE completed) OR NOT EXISTS (FROM process_groups)
        THEN 'at_step' END AS at_, p.microbatch, coalesce(p.phase, 'exit') AS phase,
    p.module, NULL::VARCHAR AS tensor, NULL::DOUBLE AS value,
    CASE
        WHEN s.still_ns IS NOT NULL THEN 'stood_still'
        WHEN EXISTS (FROM process_groups) THEN 'waited_between_ranks'
        WHEN e.note IS NOT NULL THEN 'noted'
        ELSE 'no_progress'
        END AS what_,
    (s.still_ns / $ns_per_s)::BIGINT AS still_s, s.ended_by, rtrim(e.note, '.') AS note,
    CASE WHEN p.module = '' THEN 'root' WHEN p.module IS NOT NULL THEN 'named' END AS in_module_,
    l.places_, CASE WHEN l.places_ IS NOT NULL THEN 'stood_at' END AS at_places_,
    left(e.native_stack, $shown) AS stacks, p.pid
FROM exits e CROSS JOIN listed l LEFT JOIN stood s ON true LEFT JOIN last_positions p ON true
WHERE e.status = 'hang' OR s.still_ns IS NOT NULL
-- the rank that stands furthest behind is the one that the others wait for
QUALIFY row_number() OVER (ORDER BY p.step, p.time_ns, p.rank) = 1
