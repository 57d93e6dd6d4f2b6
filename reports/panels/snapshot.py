"""The panel of an imported snapshot of the CUDA allocator: what it holds, for whom, how it is cut up, and how it came to that.

The chart shows what torch's own viewer shows: the memory in use after each event of the history, by the line that allocated it.
"""

from typing import Any

import polars as pl

from ...analyzer import Trace
from ..charts.snapshot_chart import timeline_chart
from ..text.grid import Grid
from ..text.language import say
from ..text.wording import number, size
from .panel import Panel

MOST_LINES = 9
"""Lines that have a colour of their own; the rest is one."""

_MOMENTS = 240
"""Moments of the history that are drawn."""

_ROWS = 12

_DEVICES_SQL = "SELECT * FROM device_memory ORDER BY rank, device LIMIT 64"

_LINES_SQL = """
SELECT device, coalesce(place, 'no stack') AS place, sum(bytes)::BIGINT AS bytes, sum(blocks)::BIGINT AS blocks,
    max(largest_bytes) AS largest, arg_max(purpose, bytes) AS purpose
FROM memory_blocks WHERE rank = $rank AND source = 'cuda' AND category = 'allocated'
GROUP BY ALL ORDER BY bytes DESC, place LIMIT $most
"""

_PURPOSES_SQL = """
SELECT device, category, coalesce(purpose, 'no stack') AS purpose, sum(bytes)::BIGINT AS bytes, sum(blocks)::BIGINT AS blocks
FROM memory_blocks WHERE rank = $rank AND source = 'cuda' GROUP BY ALL ORDER BY bytes DESC, category, purpose LIMIT $most
"""

_SEGMENTS_SQL = """
SELECT device, address, bytes, kind, blocks, allocated_bytes, free_bytes, largest_free_bytes FROM memory_segments
WHERE rank = $rank AND allocated_bytes + awaiting_bytes > 0 AND free_bytes > 0 ORDER BY free_bytes DESC, address LIMIT $most
"""

_TIMELINE_SQL = """
WITH device AS (
    SELECT device FROM device_memory WHERE rank = $rank ORDER BY events DESC, reserved_bytes DESC LIMIT 1
), history AS (
    SELECT event_id, owner, change, ntile($moments) OVER (ORDER BY event_id) AS moment
    FROM allocator_history WHERE rank = $rank AND device = (FROM device) AND change <> 0
), final AS (
    SELECT coalesce(place, 'no stack') AS owner, sum(bytes)::BIGINT AS bytes FROM memory_blocks
    WHERE rank = $rank AND device = (FROM device) AND source = 'cuda' AND category IN ('allocated', 'awaiting') GROUP BY ALL
), totals AS (
    SELECT coalesce(h.owner, f.owner) AS owner, coalesce(f.bytes, 0) - coalesce(h.change, 0) AS before
    FROM (SELECT owner, sum(change) AS change FROM history GROUP BY owner) h FULL JOIN final f ON f.owner = h.owner
), moments AS (
    SELECT moment, max(event_id) AS event_id FROM history GROUP BY moment
), changes AS (
    SELECT owner, moment, sum(change) AS change FROM history GROUP BY owner, moment
)
SELECT m.event_id, t.owner,
    greatest(t.before + coalesce(sum(c.change) OVER (PARTITION BY t.owner ORDER BY m.moment), 0), 0)::DOUBLE AS bytes
FROM moments m CROSS JOIN totals t LEFT JOIN changes c ON c.owner = t.owner AND c.moment = m.moment
ORDER BY m.event_id, t.owner
"""


def snapshot_panel(trace: Trace, rank: int, _around: int | None, _suspect: str | None) -> Panel | None:
    """What a snapshot of the allocator holds; None where none was imported."""
    if not trace.has("memory_segments"):
        return None
    devices = trace.sql(_DEVICES_SQL)
    mine = devices.filter(pl.col("rank") == rank).sort("reserved_bytes", descending=True)
    if not mine.height:
        return None
    lines = trace.sql(_LINES_SQL, {"rank": rank, "most": _ROWS}).to_dicts()
    timeline = trace.sql(_TIMELINE_SQL, {"rank": rank, "moments": _MOMENTS})
    grids = [(say("Devices"), _devices_grid(devices.to_dicts()))]
    if lines:
        grids.append((say("Who holds memory, by the line that allocated it"), _lines_grid(lines)))
    purposes = trace.sql(_PURPOSES_SQL, {"rank": rank, "most": _ROWS}).to_dicts()
    grids.append((say("What the memory is for, as the stacks tell"), _purposes_grid(purposes)))
    segments = trace.sql(_SEGMENTS_SQL, {"rank": rank, "most": _ROWS}).to_dicts()
    if segments:
        grids.append((say("Segments that are cut up: free memory beside blocks in use"), _segments_grid(segments)))
    return Panel(
        "snapshot",
        say("Memory snapshot"),
        say(
            "Look for a colour that grows from one end to the other: memory that is never given back. Much free memory in"
            " small pieces cannot serve a large request."
        ),
        _facts(mine.row(0, named=True)),
        grids,
        timeline_chart(_folded(timeline)) if timeline["event_id"].n_unique() > 1 else None,
        say("Memory in use after each event of the allocator, by the line that allocated it"),
    )


def _facts(row: dict[str, Any]) -> list[tuple[str, str]]:
    facts = [
        (say("Device"), str(row["device"])),
        (say("Held by the allocator"), size(row["reserved_bytes"])),
        (say("In use"), size(row["allocated_bytes"])),
        (say("In use at most"), size(row["peak_bytes"])),
        (say("Free"), size(row["free_bytes"])),
        (say("Free beside blocks in use"), size(row["split_bytes"])),
        (say("Largest free block"), size(row["largest_free_bytes"])),
        (say("Lost to rounding"), size(row["rounding_bytes"])),
    ]
    if row["events"]:
        facts.append((say("History"), say("{n} allocations and frees", n=number(row["events"]))))
    return facts


def _devices_grid(rows: list[dict[str, Any]]) -> Grid:
    columns = ("reserved_bytes", "allocated_bytes", "peak_bytes", "free_bytes", "split_bytes", "largest_free_bytes")
    named = [say("held"), say("in use"), say("at most"), say("free"), say("free beside blocks"), say("largest free")]
    return Grid(
        [say("rank"), say("device"), *named, say("segments")],
        [[str(r["rank"]), r["device"], *(size(r[c]) for c in columns), number(r["segments"])] for r in rows],
        [True, False, *(True for _ in columns), True],
    )


def _lines_grid(rows: list[dict[str, Any]]) -> Grid:
    return Grid(
        [say("allocated in"), say("for"), say("device"), say("memory"), say("blocks"), say("largest")],
        [
            [
                say("no stack") if r["place"] == "no stack" else r["place"],
                _purpose(r["purpose"]),
                r["device"],
                size(r["bytes"]),
                number(r["blocks"]),
                size(r["largest"]),
            ]
            for r in rows
        ],
        [False, False, False, True, True, True],
    )


def _purposes_grid(rows: list[dict[str, Any]]) -> Grid:
    return Grid(
        [say("state"), say("for"), say("device"), say("memory"), say("blocks")],
        [
            [say(r["category"]), _purpose(r["purpose"]), r["device"], size(r["bytes"]), number(r["blocks"])]
            for r in rows
        ],
        [False, False, False, True, True],
    )


def _segments_grid(rows: list[dict[str, Any]]) -> Grid:
    return Grid(
        [
            say("device"),
            say("address"),
            say("kind"),
            say("size"),
            say("in use"),
            say("free"),
            say("largest free"),
            say("blocks"),
        ],
        [
            [
                r["device"],
                hex(r["address"] or 0),
                r["kind"] or "",
                size(r["bytes"]),
                size(r["allocated_bytes"]),
                size(r["free_bytes"]),
                size(r["largest_free_bytes"]),
                number(r["blocks"]),
            ]
            for r in rows
        ],
        [False, False, False, True, True, True, True, True],
    )


def _purpose(name: str | None) -> str:
    return say((name or "no stack").replace("_", " "))


def _folded(frame: pl.DataFrame) -> pl.DataFrame:
    """The lines with most memory at their peak, the others together; columns event, line, from, to in bytes, stacked."""
    peaks = frame.group_by("owner").agg(pl.col("bytes").max()).sort("bytes", "owner", descending=[True, False])
    kept = peaks["owner"].head(MOST_LINES).to_list()
    other = say("all others")
    named = frame.with_columns(
        pl.when(pl.col("owner").is_in(kept)).then(pl.col("owner")).otherwise(pl.lit(other)).alias("line")
    )
    summed = named.group_by("event_id", "line").agg(pl.col("bytes").sum())
    order = {line: n for n, line in enumerate([*kept, other])}
    placed = summed.with_columns(pl.col("line").replace_strict(order, return_dtype=pl.Int64).alias("place"))
    return (
        placed.sort("event_id", "place")
        .with_columns(pl.col("bytes").cum_sum().over("event_id", order_by="place").alias("to"))
        .with_columns((pl.col("to") - pl.col("bytes")).alias("from"))
        .select(pl.col("event_id").alias("event"), "line", "place", "from", "to", "bytes")
    )
