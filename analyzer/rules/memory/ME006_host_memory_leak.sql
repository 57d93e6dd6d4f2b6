/*
code = "ME006"
name = "host-memory-leak"
severity = "warning"
phase = "optimizer"
signal = "anonymous_bytes"
message = "Memory of the process grows steadily by about {per_step} MB a step: from {from_mb} to {to_mb} MB in {steps} steps{gathers_}."
fix = "Look for what accumulates in Python. It may be a list of results, an unbounded cache, log records, or the data set's own store. The module tracemalloc shows which line allocates it."
explains = ["oom-host", "memory-near-limit"]
slack = 20
[say.gathers_]
no_kept_tensor = ", and no kept tensor accounts for it"
objects = ". What gathers is {holder}"
elements = ". What gathers is {holder} ({rate} more of type {element} each step, {bytes_per_step:bytes})"
[params.grown]
value = 67108864
unit = "bytes"
doc = "Growth over the last two thirds of the run that is worth a word."
source = "convention: of this project, 64 MiB: less is what allocators and caches take"
[params.gathered]
value = 33554432
unit = "bytes"
doc = "Growth that is worth a word where it is known what gathers."
source = "convention: of this project, half of that, where the container is known"
[params.share]
value = 0.05
doc = "And its share of what there was before."
source = "convention: of this project, a process that grows by less in all its run is not near any limit"
[params.steps]
value = 40
unit = "steps"
doc = "Steps that the last two thirds and the warm-up before them need together."
source = "convention: of this project, fewer are warm-up"
[params.parts]
value = 4
unit = "parts"
doc = "Parts of the run that are compared, after its warm-up."
source = "arithmetic: quarters"
[params.last_part]
value = 3
doc = "Number of the last part."
source = "arithmetic: counted from 0"
[params.warm]
value = 3.0
unit = "of the run"
doc = "Part of the run that is warm-up: one over this."
source = "convention: of this project, caches and pools fill in a third of it"
[params.first_steps]
value = 3
unit = "steps"
doc = "Where the first steps begin that are looked at for a plateau."
source = "convention: of this project, the very first allocate most"
[params.last_of_them]
value = 7
unit = "steps"
doc = "Where they end."
source = "convention: of this project, five of them"
[params.scatter]
value = 0.75
unit = "of the growth"
doc = "Share of the growth that must lie between quarters."
source = "convention: of this project, the rest is scatter"
[params.even]
value = 0.4
doc = "Least growth of a quarter over the largest."
source = "convention: of this project, what is kept by mistake grows evenly"
[params.explained]
value = 0.5
unit = "of the growth"
doc = "Share that tensors on the host may explain."
source = "arithmetic: a majority is more than a half"
[params.whole]
value = 0.5
unit = "of the rate"
doc = "Share of the growth that a tensor list must explain to be named."
source = "arithmetic: a majority is more than a half"
[params.little]
value = 0.25
unit = "of the rate"
doc = "Share below which it accounts for nothing."
source = "arithmetic: half of that"
[params.bytes_per_mb]
value = 1e6
unit = "bytes"
doc = "In a megabyte."
source = "arithmetic: a unit"
[needs]
tables = ["steps"]
columns = ["steps.anonymous_bytes"]
steps = 40
[doc]
what = "Resident memory that belongs to no file grows by similar amounts. It grows in each quarter of the last two thirds of the run."
why = "What grows steadily ends at the limit of the host."
not_this = "Growth while allocators warm up, files mapped into memory. A data set that fills its cache in the first epoch, tensors whose number grows."
source = "Quarters are compared with each other; the run's first third is left out."
*/
WITH rows_ AS (
    SELECT rank, step, max(anonymous_bytes) AS bytes, max(epoch) AS epoch,
        max(max(epoch)) OVER (PARTITION BY rank) AS epochs, max(live_tensor_bytes) AS tensors
    FROM steps WHERE anonymous_bytes IS NOT NULL GROUP BY rank, step
), numbered AS (
    SELECT *, row_number() OVER (PARTITION BY rank ORDER BY step) AS n,
        count(*) OVER (PARTITION BY rank) AS total
    FROM rows_
    WHERE epochs IS NULL OR epochs < 2 OR epoch >= 1
), quarters AS (
    SELECT rank,
        least($last_part, floor($parts * (n - total / $warm) / (total - total / $warm)))::INT AS quarter,
        median(bytes) AS bytes, median(step) AS middle, max(step) AS last, arg_max(tensors, step) AS tensors
    FROM numbered WHERE n > total / $warm AND total >= $steps GROUP BY ALL
), grown AS (
    SELECT rank, arg_min(bytes, quarter) AS low, arg_max(bytes, quarter) AS high,
        arg_max(middle, quarter) - arg_min(middle, quarter) AS between_, max(last) AS last,
        max(tensors) - min(tensors) AS tensors, count(*) AS quarters
    FROM quarters GROUP BY rank
), parts AS (
    SELECT rank, min(d) AS least_, max(d) AS most
    FROM (SELECT rank, bytes - lag(bytes) OVER (PARTITION BY rank ORDER BY quarter) AS d FROM quarters)
    WHERE d IS NOT NULL
    GROUP BY rank
), start AS (
    SELECT n.rank, median(n.bytes) AS bytes, min(n.step) AS step
    FROM numbered n
    WHERE n.n BETWEEN $first_steps AND $last_of_them
    GROUP BY n.rank
), dated AS (
    SELECT g.*, (g.high - g.low) / g.between_ AS rate, s.bytes AS base, s.step AS first
    FROM grown g
    JOIN parts p USING (rank)
    JOIN start s USING (rank)
    WHERE g.quarters = $parts AND g.high - g.low >= $grown * $scatter AND g.high - g.low >= $share * g.low
      AND p.least_ > 0
        AND p.least_ >= $even * p.most
        AND coalesce(g.tensors, 0) < $explained * (g.high - g.low)
), owners AS (
    SELECT rank, owner, since_step, rate, element, bytes_per_step,
        CASE kind WHEN 'class' THEN 'objects' ELSE 'elements' END AS gathers_
    FROM memory_growing WHERE element <> 'tensor' AND steady AND looks >= 2
    QUALIFY row_number() OVER (PARTITION BY rank ORDER BY bytes_per_step DESC NULLS LAST, holder) = 1
), seen AS (
    SELECT d.rank,
        CASE
            WHEN o.bytes_per_step >= $whole * d.rate THEN o.since_step
            ELSE greatest(d.first,
                (SELECT max(n.step) - round((max(n.bytes) - d.base) / d.rate)::BIGINT
                    FROM numbered n
                    WHERE n.rank = d.rank))
            END AS step,
        d.high - d.low AS value, d.rate AS per_step, d.low, d.high, d.between_::BIGINT AS steps,
        coalesce(o.gathers_, 'no_kept_tensor') AS gathers_, o.owner AS holder, o.rate, o.element,
        o.bytes_per_step
    FROM dated d LEFT JOIN owners o ON o.rank = d.rank AND o.bytes_per_step >= $little * d.rate
), told AS (
    -- where it is known what gathers, less of it is enough
    SELECT g.rank, g.since_step AS step, g.final_bytes AS value, g.bytes_per_step AS per_step,
        min(s.anonymous_bytes) AS low, max(s.anonymous_bytes) AS high,
        max(s.step - g.since_step) AS steps, o.gathers_, o.owner AS holder, o.rate, o.element,
        o.bytes_per_step
    FROM memory_gathered g
    JOIN owners o ON o.rank = g.rank AND o.owner = g.owner
    JOIN steps s ON s.rank = g.rank AND s.step >= g.since_step
    WHERE g.final_bytes >= $gathered AND g.rank NOT IN (SELECT rank FROM seen)
    GROUP BY ALL
)
SELECT rank, step, value, round(per_step / $bytes_per_mb, 2) AS per_step,
    round(low / $bytes_per_mb)::BIGINT AS from_mb,
    round(high / $bytes_per_mb)::BIGINT AS to_mb, steps,
    gathers_, holder, rate, element, bytes_per_step
FROM (SELECT * FROM seen UNION ALL BY NAME SELECT * FROM told) ORDER BY rank
