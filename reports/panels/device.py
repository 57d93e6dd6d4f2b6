"""What the devices of a profile did: how long they worked, with what, and what the host did while they did not."""

import polars as pl

from ...analyzer import Trace
from ..charts.panel_charts import lanes_chart
from ..sections.device_use import USE
from ..text.grid import Grid
from ..text.language import say
from ..text.wording import duration, number, show_name
from .panel import Panel

MOST = 15
_LONGEST_NAME = 90
MOST_RANKS = 64
"""Lanes in the chart; of more ranks those with the least work are drawn."""

_KERNELS = """
SELECT name, kind, operator, calls, ns, median_ns, longest_ns, share FROM kernel_times
WHERE rank = $rank ORDER BY ns DESC, name LIMIT $most
"""

_GAPS = """
SELECT coalesce(host, '') AS host, waits_for, count(*) AS pauses, sum(ns)::DOUBLE AS ns, max(ns) AS longest,
    arg_max(next_name, ns) AS next_name
FROM host_in_gaps WHERE rank = $rank GROUP BY host, waits_for ORDER BY ns DESC, host LIMIT $most
"""

_OTHERS = """
SELECT count(*) AS kernels, sum(dur_ns)::DOUBLE AS ns FROM device_events JOIN profile_windows USING (rank, window_id)
WHERE rank = $rank AND stepped AND step IS NULL AND kind IN ('kernel', 'communication')
"""
"""Kernels of no profiled step: what the device still had to do when the profile began, for the most part."""

_WAITS = {"launch": "the host had not launched it", "queue": "it was launched, and waited"}


def device_panel(trace: Trace, rank: int, _around: int | None, _suspect: str | None) -> Panel | None:
    """Kernels, pauses and lanes of ranks; None where no work of a device was profiled."""
    use = trace.sql(USE)
    if not use.height:
        return None
    own = use.filter(pl.col("rank") == rank)
    one = (own if own.height else use.head(1)).row(0, named=True)
    facts = [
        (
            say("Profiled"),
            duration(one["ns"]) if one["steps"] else say("{span}, no step is marked", span=duration(one["ns"])),
        ),
        (say("Device busy"), f"{one['busy'] / one['ns']:.1%}"),
        (
            say("Kernels"),
            say("{kernels}, {time}", kernels=number(int(one["kernels"])), time=duration(one["kernel_ns"])),
        ),
        (say("Communication"), f"{one['communication'] / one['ns']:.1%}"),
        (say("Only communication"), f"{one['exposed'] / one['ns']:.1%}"),
    ]
    others = trace.sql(_OTHERS, {"rank": one["rank"]}).row(0, named=True)
    if others["kernels"]:
        left = say("{kernels}, {time}", kernels=number(int(others["kernels"])), time=duration(others["ns"]))
        facts.append((say("Kernels of no profiled step, left out"), left))
    grids = [(say("Kernels and copies by time"), _kernels(trace, one["rank"]))]
    gaps = trace.sql(_GAPS, {"rank": one["rank"], "most": MOST})
    if gaps.height:
        grids.append((say("The longest pauses of the device, by what the host did"), _gaps(gaps)))
    if use.height > 1:
        grids.append((say("Devices of all ranks"), _ranks(use)))
    return Panel(
        "device",
        say("Device"),
        say(
            "Look for pauses: while the device has nothing to do, the host launches too slowly, reads a result, or waits"
            " for data. A rank that only communicates waits for another one."
        ),
        facts,
        grids,
        lanes_chart(_lanes(use)),
        say("Share of the profiled time of each rank in which its device computed, only communicated, or did nothing"),
    )


def _short(name: str) -> str:
    """A name without what makes no difference to a reader: the templates of a kernel go on for pages."""
    name = show_name(name.removeprefix("void "))
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"


def _kernels(trace: Trace, rank: int) -> Grid:
    rows = [
        [
            _short(r["name"]),
            duration(r["ns"]),
            f"{r['share']:.1%}",
            number(r["calls"]),
            duration(r["median_ns"]),
            duration(r["longest_ns"]),
            say(r["kind"]),
            show_name(r["operator"], empty="") if r["operator"] else "",
        ]
        for r in trace.sql(_KERNELS, {"rank": rank, "most": MOST}).iter_rows(named=True)
    ]
    heads = [
        "kernel",
        say("time"),
        say("of all"),
        "calls",
        "median",
        "longest",
        say("kind"),
        "operator",
    ]  # times are in view
    return Grid(heads, rows, [False, True, True, True, True, True, False, False])


def _gaps(frame: pl.DataFrame) -> Grid:
    rows = [
        [
            _short(r["host"]) if r["host"] else say("between operators"),
            duration(r["ns"]),
            number(r["pauses"]),
            duration(r["longest"]),
            say(_WAITS[r["waits_for"]]) if r["waits_for"] else "",
            _short(r["next_name"]),
        ]
        for r in frame.iter_rows(named=True)
    ]
    heads = [say("host"), say("time"), say("pauses"), "longest", say("what came next"), say("next on the device")]
    return Grid(heads, rows, [False, True, True, True, False, False])


def _ranks(use: pl.DataFrame) -> Grid:
    rows = [
        [
            str(r["rank"]),
            duration(r["ns"]),
            f"{r['busy'] / r['ns']:.1%}",
            f"{r['communication'] / r['ns']:.1%}",
            f"{r['exposed'] / r['ns']:.1%}",
            number(int(r["kernels"])),
        ]
        for r in use.iter_rows(named=True)
    ]
    heads = ["rank", say("profiled"), say("busy"), say("communication"), say("only communication"), say("kernels")]
    return Grid(heads, rows, [True] * 6)


def _lanes(use: pl.DataFrame) -> pl.DataFrame:
    """Rows of the chart: a lane for each rank, its parts one beside the other."""
    drawn = use.sort(pl.col("busy") / pl.col("ns")).head(MOST_RANKS).sort("rank")
    parts = drawn.select(
        pl.format("rank {}", "rank").alias("lane"),
        ((pl.col("busy") - pl.col("exposed")) / pl.col("ns")).alias("computes"),
        (pl.col("exposed") / pl.col("ns")).alias("only communicates"),
        (1 - pl.col("busy") / pl.col("ns")).alias("idle"),
    )
    long = parts.unpivot(index="lane", variable_name="part", value_name="share")
    return long.with_columns(pl.col("part").map_elements(say, return_dtype=pl.String), pl.col("share").round(4))
