"""Several ranks beside each other: time and loss of each, and what they waited for."""

import polars as pl

from ...analyzer import Trace
from ..charts.curves_and_health import curves_chart
from ..sections.curves import curve_of
from ..text.grid import Grid
from ..text.language import say
from ..text.wording import duration, number, show_name
from .panel import Panel, kept

MOST_RANKS = 12
"""Lines in a chart; of more ranks the slowest are drawn."""

_STEPS_SQL = "SELECT rank, step, step_ns::DOUBLE / 1e6 AS ms, loss FROM step_series ORDER BY rank, step"

_WAITS_SQL = (
    "SELECT rank, sum(waited_ns)::DOUBLE AS waited, count(*) AS calls FROM collective_calls GROUP BY rank ORDER BY rank"
)

_CALLS_SQL = """
SELECT op, "group", count(*) AS calls, count(DISTINCT rank) AS ranks, sum(numel) AS numel, sum(waited_ns)::DOUBLE AS waited,
       max(waited_ns) AS longest, count(error) AS errors
FROM collective_calls GROUP BY op, "group" ORDER BY waited DESC NULLS LAST LIMIT 24
"""


def ranks_panel(trace: Trace, _rank: int, around: int | None, _suspect: str | None) -> Panel | None:
    """All ranks side by side; None for a run of one."""
    steps = trace.sql(_STEPS_SQL)
    if steps["rank"].n_unique() < 2:
        return None
    waits = {r["rank"]: r for r in trace.sql(_WAITS_SQL).to_dicts()}
    each = steps.group_by("rank").agg(
        pl.len().alias("steps"), pl.col("step").max().alias("last"), pl.col("ms").median(), pl.col("loss").last()
    )
    rows = [
        [
            str(r["rank"]),
            number(r["steps"]),
            number(r["last"]),
            duration(None if r["ms"] is None else r["ms"] * 1e6),
            duration(waits[r["rank"]]["waited"]) if r["rank"] in waits else say("not measured"),
            number(waits[r["rank"]]["calls"]) if r["rank"] in waits else say("not measured"),
            number(r["loss"]),
        ]
        for r in each.sort("rank").iter_rows(named=True)
    ]
    columns = [
        "rank",
        "steps",
        say("last step"),
        say("step, median"),
        say("waited in calls"),
        "calls",
        say("last loss"),
    ]
    grids = [(say("Ranks"), Grid(columns, rows, [True] * 7))]
    calls = trace.sql(_CALLS_SQL)
    if calls.height:
        grids.append((say("Calls between ranks"), _calls(calls)))
    slow = each.sort("ms", descending=True, nulls_last=True)["rank"].to_list()[:MOST_RANKS]
    drawn = steps.filter(pl.col("rank").is_in(slow)).with_columns(pl.format("rank {}", "rank").alias("line"))
    curves = [
        curve_of(name, title, unit, drawn.select("step", pl.col(c).alias("value"), "line").drop_nulls("value"), around)
        for name, title, unit, c in (
            ("rank_time", say("Step time"), "ms", "ms"),
            ("rank_loss", say("Loss"), "", "loss"),
        )
    ]
    return Panel(
        "ranks",
        say("Ranks"),
        say(
            "Look for lines that part: equal replicas have equal gradients, and the rank that waits least"
            " is the one that the others"
            " wait for."
        ),
        [],
        grids,
        curves_chart(kept(*curves), around),
        say("Step time and loss of each rank over steps"),
    )


def _calls(frame: pl.DataFrame) -> Grid:
    rows = [
        [
            show_name(r["op"]),
            show_name(r["group"]),
            number(r["ranks"]),
            number(r["calls"]),
            number(None if r["numel"] is None else int(r["numel"])),
            duration(None if r["waited"] is None else float(r["waited"])),
            duration(r["longest"]),
            number(r["errors"]),
        ]
        for r in frame.iter_rows(named=True)
    ]
    columns = ["call", "group", "ranks", "calls", "elements", "waited", "longest", "failed"]
    return Grid(columns, rows, [False, False, True, True, True, True, True, True])
