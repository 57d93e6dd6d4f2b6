"""Which rank the others wait for in the collectives of a profile, and in which calls."""

from ...analyzer import Trace
from ..text.grid import Grid
from ..text.language import say
from ..text.wording import duration, number, show_name

MOST = 24
"""Rows of a table; of more ranks those that are latest."""

_RANKS = """
SELECT rank, sum(calls)::BIGINT AS calls, sum(in_calls_ns)::DOUBLE AS in_calls,
    sum(waited_ns)::DOUBLE AS waited, sum(late_ns)::DOUBLE AS late,
    sum(ns)::DOUBLE AS ns
FROM rank_lateness GROUP BY rank ORDER BY late DESC, rank LIMIT $most
"""

_CALLS = """
SELECT op, "group", count(DISTINCT number) AS calls, count(DISTINCT rank) AS ranks, median(numel) AS numel,
    median(dur_ns)::DOUBLE AS typical,
    sum(waited_ns)::DOUBLE AS waited, mode(rank) FILTER (waited_ns = 0) AS last_rank
FROM profiled_waits GROUP BY op, "group" ORDER BY waited DESC, op, "group" LIMIT $most
"""


def late_rank_grids(trace: Trace) -> list[tuple[str, Grid]]:
    """Two tables; none where profiles of several ranks hold no collectives that can be compared."""
    ranks = trace.sql(_RANKS, {"most": MOST})
    if not ranks.height:
        return []
    rows = [
        [
            str(r["rank"]),
            number(r["calls"]),
            duration(r["in_calls"]),
            duration(r["waited"]),
            duration(r["late"]),
            f"{r['late'] / r['ns']:.1%}",
        ]
        for r in ranks.iter_rows(named=True)
    ]
    heads = [
        "rank",
        "calls",
        say("time in them"),
        say("waited for others"),
        say("others waited for it"),
        say("of its time"),
    ]
    calls = [
        [
            show_name(r["op"]),
            show_name(r["group"]),
            number(r["ranks"]),
            number(r["calls"]),
            number(None if r["numel"] is None else int(r["numel"])),
            duration(r["typical"]),
            duration(r["waited"]),
            str(r["last_rank"]),
        ]
        for r in trace.sql(_CALLS, {"most": MOST}).iter_rows(named=True)
    ]
    call_heads = ["call", "group", "ranks", "calls", "elements", "median", say("waited, all ranks"), say("mostly last")]
    return [
        (say("Who waits for whom in the profiled collectives"), Grid(heads, rows, [True] * 6)),
        (say("Profiled collectives"), Grid(call_heads, calls, [False, False, True, True, True, True, True, True])),
    ]
