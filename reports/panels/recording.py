"""What recording took and what it left out, so that nobody takes a silence for health."""

from ...analyzer import Trace
from ..sections.tables import cost_facts, reduce_cost
from ..text.grid import Grid
from ..text.language import say
from ..text.wording import duration, number, plural
from .panel import Panel

_PARTS_SQL = """
SELECT part, sum(ns) AS ns, sum(calls) AS calls, max(interval) AS most, arg_max(interval, time_ns) AS interval,
       arg_max(reason, time_ns) AS reason
FROM recorder_stats WHERE rank = $rank GROUP BY part ORDER BY ns DESC NULLS LAST
"""

_LEFT_SQL = """
WITH kinds AS (SELECT step, unnest(left_out) AS kind FROM step_detail WHERE rank = $rank)
SELECT kind, count(*) AS steps, min(step) AS first, max(step) AS last FROM kinds WHERE kind <> ''
GROUP BY kind ORDER BY steps DESC, kind
"""

_UNCALLED_SQL = "SELECT count(*) FROM modules WHERE rank = $rank AND call_order IS NULL"

_REASONS = {"budget": "to stay within the budget", "option": "as asked", "off": "switched off", "full": ""}


def recording_panel(trace: Trace, rank: int, _around: int | None, _suspect: str | None) -> Panel | None:
    """The recorder's own cost by kind of work, and what was not measured in how many steps."""
    facts = cost_facts(reduce_cost(trace))
    uncalled = trace.sql(_UNCALLED_SQL, {"rank": rank}).item()
    if uncalled:
        facts.append((say("Never called"), plural(uncalled, "module")))
    grids: list[tuple[str, Grid]] = []
    left = trace.sql(_LEFT_SQL, {"rank": rank})
    if left.height:
        rows = [
            [
                say(r["kind"].replace("_", " ")),
                number(r["steps"]),
                say("{first} to {last}", first=r["first"], last=r["last"]),
            ]
            for r in left.iter_rows(named=True)
        ]
        grids.append(
            (say("Not measured, or not wholly"), Grid(["kind", "steps", "between"], rows, [False, True, False]))
        )
    parts = trace.sql(_PARTS_SQL, {"rank": rank})
    if parts.height:
        rows = [
            [
                say(r["part"].replace("_", " ")),
                duration(None if r["ns"] is None else float(r["ns"])),
                number(None if r["calls"] is None else int(r["calls"])),
                say("every step")
                if r["interval"] == 1
                else ""
                if r["interval"] is None
                else say("every {interval} steps", interval=r["interval"]),
                say(_REASONS.get(r["reason"], r["reason"] or "")),
            ]
            for r in parts.iter_rows(named=True)
        ]
        grids.append(
            (
                say("Work of the recorder"),
                Grid(["work", "time", "calls", "measured", "why"], rows, [False, True, True, False, False]),
            )
        )
    return Panel(
        "recording",
        say("What recording cost, and what it left out"),
        say("What was not measured in a step cannot be judged there: a fault then lies between two steps."),
        facts,
        grids,
    )
