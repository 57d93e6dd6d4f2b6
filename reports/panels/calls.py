"""The panel of imported Flight Recorder dumps: calls that have not ended, where each rank stands, the stacks of both sides."""

import polars as pl

from ...analyzer import Trace
from ..text.grid import Grid
from ..text.language import say
from ..text.wording import duration, number, show_name
from .panel import Panel

MOST = 20
"""Rows of a table."""

_FACTS = """
SELECT (SELECT count(DISTINCT rank) FROM process_groups) AS dumps, count(*) AS calls, count(DISTINCT "group") AS groups,
    count(*) FILTER (state IN ('scheduled', 'started')) AS open_, count(state) > 0 AS told
FROM collective_calls
"""

_OPEN = """
WITH last_ AS (SELECT max(time_ns) AS ns FROM collective_calls), missed AS (
    SELECT "group", number, list(rank) AS ranks FROM calls_missed GROUP BY "group", number
)
SELECT c."group", c.number, any_value(c.op) AS op, any_value(c.numel) AS numel, ranks_in_words(list(c.rank)) AS waiting,
    string_agg(DISTINCT c.state, ', ' ORDER BY c.state) AS state, max(last_.ns) - min(c.time_ns) AS since,
    CASE WHEN any_value(m.ranks) IS NOT NULL THEN ranks_in_words(any_value(m.ranks)) END AS missing,
    any_value(c.place) AS place
FROM collective_calls c CROSS JOIN last_ LEFT JOIN missed m ON m."group" = c."group" AND m.number = c.number
WHERE c.state IN ('scheduled', 'started') OR m.ranks IS NOT NULL
GROUP BY c."group", c.number ORDER BY any_value(m.ranks) IS NULL, min(c.time_ns), c."group", c.number LIMIT $most
"""

_STANDS = """
WITH last_ AS (
    SELECT rank, max(number) FILTER (state = 'completed') AS completed, arg_max("group", time_ns) AS "group",
        arg_max(number, time_ns) AS number, arg_max(op, time_ns) AS op, arg_max(state, time_ns) AS state,
        arg_max(place, time_ns) AS place
    FROM collective_calls GROUP BY rank
)
SELECT ranks_in_words(list(rank)) AS ranks, "group", number, op, state, place FROM last_
GROUP BY "group", number, op, state, place ORDER BY count(*), min(rank) LIMIT $most
"""

_BOTH = """
WITH first_ AS (
    SELECT "group", number, rank, at_group, at_number FROM calls_missed
    WHERE at_number IS NOT NULL ORDER BY waits, time_ns, number, rank LIMIT 1
), sides AS (
    SELECT 0 AS side, c.rank, c.frames_id FROM collective_calls c JOIN first_ f ON c."group" = f."group" AND c.number = f.number
    UNION ALL
    SELECT 1, c.rank, c.frames_id FROM collective_calls c JOIN first_ f
        ON c.rank = f.rank AND c."group" = f.at_group AND c.number = f.at_number
), one AS (
    SELECT * FROM sides WHERE frames_id IS NOT NULL QUALIFY row_number() OVER (PARTITION BY side ORDER BY rank) = 1
)
SELECT o.side, o.rank, f.depth, f.file || ':' || f.line || ' in ' || f.function AS place
FROM one o JOIN frames f ON f.rank = o.rank AND f.frames_id = o.frames_id ORDER BY f.depth
"""


def calls_panel(trace: Trace, _rank: int, _around: int | None, _suspect: str | None) -> Panel | None:
    """The calls of all ranks; None where no dump of them was imported."""
    if not trace.has("process_groups"):
        return None
    one = trace.sql(_FACTS).row(0, named=True)
    open_ = number(one["open_"]) if one["told"] else say("the dumps do not tell")
    facts = [
        (say("Dumps"), number(one["dumps"])),
        (say("Calls"), number(one["calls"])),
        (say("Process groups"), number(one["groups"])),
        (say("Without an end"), open_),
    ]
    grids: list[tuple[str, Grid]] = []
    pending = trace.sql(_OPEN, {"most": MOST})
    if pending.height:
        grids.append((say("Calls that have not ended, those first that a rank did not make"), _pending(pending)))
    stands = trace.sql(_STANDS, {"most": MOST})
    if stands.height:
        grids.append((say("The last call of each rank"), _stands(stands)))
    stacks = trace.sql(_BOTH)
    if stacks.height:
        grids.append((say("Who waits, and where the missing rank was last"), _stacks(stacks)))
    return Panel(
        "calls",
        say("Calls between ranks"),
        say(
            "Look for the rank whose last call is another one than that of the rest of its group, and for the line it"
            " stands in."
        ),
        facts,
        grids,
    )


def _pending(frame: pl.DataFrame) -> Grid:
    rows = [
        [
            show_name(r["group"]),
            number(r["number"]),
            show_name(r["op"]),
            number(r["numel"]),
            r["waiting"],
            r["state"] or "",
            duration(r["since"]),
            r["missing"] or "",
            show_name(r["place"], empty="") if r["place"] else "",
        ]
        for r in frame.iter_rows(named=True)
    ]
    heads = [
        "group",
        say("number"),
        "call",
        "elements",
        say("made by"),
        say("state"),
        say("open for at least"),
        say("missing"),
        "line",
    ]
    return Grid(heads, rows, [False, True, False, True, False, False, True, False, False])


def _stands(frame: pl.DataFrame) -> Grid:
    rows = [
        [
            r["ranks"],
            show_name(r["group"]),
            number(r["number"]),
            show_name(r["op"]),
            r["state"] or "",
            show_name(r["place"], empty="") if r["place"] else "",
        ]
        for r in frame.iter_rows(named=True)
    ]
    heads = ["ranks", "group", say("number"), "call", say("state"), "line"]
    return Grid(heads, rows, [False, False, True, False, False, False])


def _stacks(frame: pl.DataFrame) -> Grid:
    sides = [frame.filter(pl.col("side") == side) for side in (0, 1)]
    waits, last = (side["rank"][0] if side.height else None for side in sides)
    heads = [
        say("no stack") if waits is None else say("rank {rank} waits", rank=waits),
        say("no stack") if last is None else say("rank {rank} was last in", rank=last),
    ]
    places = [side["place"].to_list() for side in sides]
    rows = [
        [show_name(column[depth], empty="") if depth < len(column) else "" for column in places]
        for depth in range(max(map(len, places)))
    ]
    return Grid(heads, rows, [False, False])
