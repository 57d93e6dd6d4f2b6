"""The panel of memory in a profile: its course, each step's peak, and who asked for it and did not give it back."""

import polars as pl

from ...analyzer import Trace
from ..charts.snapshot_chart import timeline_chart
from ..text.grid import Grid
from ..text.language import say
from ..text.wording import number, show_name, size
from .panel import Panel
from .snapshot import folded

_ROWS = 12
_MOMENTS = 240
"""Moments that are drawn."""

_STEPS = """
SELECT device, step, allocations, allocated_bytes, peak_bytes, last_bytes, grown_bytes FROM profiled_memory
WHERE rank = $rank ORDER BY device, step LIMIT 40
"""

_OWNERS = """
WITH asked AS (
    SELECT device, coalesce(owner, 'outside of operators') AS owner, count(*) AS blocks, sum(change)::BIGINT AS bytes,
        max(change) AS largest
    FROM memory_changes WHERE rank = $rank AND change > 0 GROUP BY ALL
)
SELECT a.*, l.bytes AS left_ FROM asked a
LEFT JOIN (SELECT device, owner, sum(bytes)::BIGINT AS bytes FROM memory_left WHERE rank = $rank GROUP BY ALL) l
    ON l.device = a.device AND l.owner = a.owner
ORDER BY a.bytes DESC, a.owner LIMIT $most
"""

_COURSE = """
WITH device AS (
    SELECT device FROM profiled_memory WHERE rank = $rank ORDER BY peak_bytes DESC, device LIMIT 1
), changes AS (
    -- an operator that lets go of memory is not the one that asked for it: only categories add up
    SELECT event_id, CASE WHEN addr IS NULL THEN owner ELSE 'in use' END AS owner, change, held_bytes, addr,
        ntile($moments) OVER (ORDER BY event_id) AS moment
    FROM memory_changes WHERE rank = $rank AND device = (FROM device) AND window_id = 0
), moments AS (
    SELECT moment, max(event_id) AS event_id, arg_max(held_bytes, event_id) AS held FROM changes GROUP BY moment
), owners AS (
    SELECT DISTINCT owner FROM changes
), sums AS (
    SELECT owner, moment, sum(change) AS change FROM changes GROUP BY owner, moment
)
SELECT m.event_id, o.owner, CASE WHEN o.owner = 'in use' THEN m.held::DOUBLE
    ELSE greatest(coalesce(sum(s.change) OVER (PARTITION BY o.owner ORDER BY m.moment), 0), 0)::DOUBLE END AS bytes
FROM moments m CROSS JOIN owners o LEFT JOIN sums s ON s.owner = o.owner AND s.moment = m.moment ORDER BY m.event_id, o.owner
"""


def profile_memory_panel(trace: Trace, rank: int, _around: int | None, _suspect: str | None) -> Panel | None:
    """Memory of a profile; None where it does not tell of memory."""
    if not trace.has("memory_events") and not trace.has("profiler_events"):
        return None
    steps = trace.sql(_STEPS, {"rank": rank})
    if not steps.height:
        return None
    owners = trace.sql(_OWNERS, {"rank": rank, "most": _ROWS})
    course = trace.sql(_COURSE, {"rank": rank, "moments": _MOMENTS})
    return Panel(
        "profile_memory",
        say("Memory in the profile"),
        say("Look for a floor that rises from step to step: memory that is never given back."),
        [(say("Most in use"), size(float(steps["peak_bytes"].max() or 0)))],  # pyright: ignore[reportArgumentType] # a number
        [(say("Memory by step"), _steps(steps)), (say("Who asked for memory"), _owners(owners))],
        timeline_chart(folded(course), title=say("Memory in use"), axis=say("event of the profile"))
        if course["event_id"].n_unique() > 1
        else None,
        say("Memory in use over the events of the profile"),
    )


def _steps(frame: pl.DataFrame) -> Grid:
    rows = [
        [
            show_name(r["device"]),
            say("whole profile") if r["step"] is None else number(r["step"]),
            number(r["allocations"]),
            size(r["allocated_bytes"]),
            size(r["peak_bytes"]),
            size(r["last_bytes"]),
            size(r["grown_bytes"]),
        ]
        for r in frame.iter_rows(named=True)
    ]
    heads = [
        "device",
        "step",
        say("allocations"),
        say("asked for"),
        say("most in use"),
        say("at the end"),
        say("grown by"),
    ]
    return Grid(heads, rows, [False, True, True, True, True, True, True])


def _owners(frame: pl.DataFrame) -> Grid:
    rows = [
        [
            show_name(r["device"]),
            show_name(r["owner"]),
            number(r["blocks"]),
            size(r["bytes"]),
            size(r["largest"]),
            size(r["left_"]),
        ]
        for r in frame.iter_rows(named=True)
    ]
    heads = ["device", say("asked for by"), say("allocations"), say("asked for"), "largest", say("not given back")]
    return Grid(heads, rows, [False, False, True, True, True, True])
