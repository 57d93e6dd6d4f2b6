"""Memory over the run: process, device and living tensors, and which tensors became more."""

from typing import Any

import polars as pl

from ...analyzer import Trace
from ..charts.curves_and_health import curves_chart
from ..sections.memory_owners import blocks_grid, owners_grid
from ..text.grid import Grid
from ..text.language import say
from ..text.wording import number, shape, size
from .panel import Panel, curve_over, kept

GROWERS = 8

_STEPS_SQL = """
SELECT step, max(time_ns) AS time_ns, max(rss_bytes) / 1e6 AS rss, max(anonymous_bytes) / 1e6 AS anonymous,
       max(cuda_allocated_bytes) / 1e6 AS allocated, max(cuda_reserved_bytes) / 1e6 AS reserved,
       max(live_tensor_bytes) / 1e6 AS live, max(outputs_alive_bytes) / 1e6 AS outputs, max(graphs_alive) AS graphs
FROM steps WHERE rank = $rank GROUP BY step ORDER BY step
"""

_TREE_SQL = """
SELECT time_ns, coalesce(pss_bytes, rss_bytes) / 1e6 AS tree, memory_used_bytes / 1e6 AS used
FROM system_samples ORDER BY time_ns
"""

_GROWERS_SQL = """
SELECT shape, dtype, arg_min(tensors, step) AS before, arg_max(tensors, step) AS after, min(step) AS since, max(step) AS until,
       arg_max(bytes, step) - arg_min(bytes, step) AS grown, arg_max(with_graph, step) AS with_graph
FROM live_tensors WHERE rank = $rank GROUP BY shape, dtype
HAVING after > before ORDER BY grown DESC LIMIT $most
"""


def memory_panel(trace: Trace, rank: int, around: int | None, _suspect: str | None) -> Panel | None:
    """Memory over steps; None where none was measured."""
    steps = trace.sql(_STEPS_SQL, {"rank": rank})
    if not steps.height:
        return None
    tree = trace.sql(_TREE_SQL)
    if tree.height and steps["time_ns"].count() == steps.height:
        joined = tree.join_asof(
            steps.select("time_ns", "step").sort("time_ns"), on="time_ns", strategy="forward"
        ).drop_nulls("step")
        tree = joined.group_by("step").agg(pl.col("tree").max(), pl.col("used").max()).sort("step")
    else:
        tree = pl.DataFrame(schema={"step": pl.Int64, "tree": pl.Float64, "used": pl.Float64})
    process = {
        "rss": say("process"),
        "anonymous": say("not from files"),
        "tree": say("with child processes"),
    }
    device = {"allocated": say("in tensors"), "reserved": say("held by the allocator")}
    all_ = steps.join(tree, on="step", how="left")
    curves = kept(
        curve_over(all_, "process_memory", say("Memory of the process"), "MB", process, around),
        curve_over(all_, "device_memory", say("Memory of the device"), "MB", device, around),
        curve_over(all_, "live_memory", say("Living tensors"), "MB", {"live": say("tensors")}, around),
        curve_over(all_, "graphs", say("Graphs of earlier steps still alive"), "", {"graphs": say("graphs")}, around),
    )
    curves = [c for c in curves if c.name != "graphs" or (c.points["value"] > 0).any()]
    if not curves:
        return None
    growers = _growers(trace, rank)
    owners, blocks = owners_grid(trace, rank), blocks_grid(trace, rank)
    grids = [(say("Who owns what grows"), owners)] if owners is not None else []
    grids += [(say("Tensors that became more"), growers)] if growers is not None else []
    grids += [blocks] if blocks is not None else []
    return Panel(
        "memory",
        say("Memory"),
        say(
            "Look for a line that climbs to the end: memory that is never given back. A jump in one step is a larger batch or an"
            " evaluation."
        ),
        _facts(steps),
        grids,
        curves_chart(curves, around),
        say("Memory of process, device and tensors over steps"),
    )


def _facts(steps: pl.DataFrame) -> list[tuple[str, str]]:
    facts: list[tuple[str, str]] = []
    for column, words in (("rss", say("Process")), ("allocated", say("Device"))):
        known = steps.select("step", column).drop_nulls()
        if known.height < 2:
            continue
        facts.append((say("{words}, most", words=words), size(_number(known[column].max()) * 1e6)))
        # the first half is warming up; medians, so that one large batch is no growth
        half = known.tail(max(2, known.height // 2))
        first, last = half.head(max(1, half.height // 4)), half.tail(max(1, half.height // 4))
        span = _number(last["step"].median()) - _number(first["step"].median())
        grown = _number(last[column].median()) - _number(first[column].median())
        if span > 0:
            facts.append((say("{words}, growth per step in the second half", words=words), size(grown / span * 1e6)))
    return facts


def _growers(trace: Trace, rank: int) -> Grid | None:
    rows = trace.sql(_GROWERS_SQL, {"rank": rank, "most": GROWERS}).to_dicts()
    if not rows:
        return None
    return Grid(
        ["shape", "dtype", "tensors", say("made by operators"), "steps", say("more memory")],
        [
            [
                shape(r["shape"]),
                r["dtype"],
                f"{r['before']} → {r['after']}",
                number(r["with_graph"]),
                say("{since} to {until}", since=r["since"], until=r["until"]),
                size(r["grown"]),
            ]
            for r in rows
        ],
        [False, False, True, True, False, True],
    )


def _number(value: Any) -> float:
    return float(value or 0)
