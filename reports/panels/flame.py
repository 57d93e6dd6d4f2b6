"""The flame graph of the profiled steps: phase, module and operator, each as wide as its time."""

import polars as pl

from ...analyzer import Trace
from ..charts.panel_charts import flame_chart
from ..sections.flame import OUTSIDE, REST, WHOLE, Bar, bars_of, tree_of
from ..sections.profile_grids import operator_grid
from ..text.grid import Grid
from ..text.language import say
from ..text.wording import duration, number, show_name
from .panel import Panel

MODULES = 12

_SQL = """
WITH steps AS (
    SELECT count(*) AS n, sum(coalesce(host_ns, ns)) AS ns, count(DISTINCT rank) AS ranks, count(step) AS marked
    FROM profiled_steps
)
SELECT o.phase, m.model, o.module, CASE o.cat WHEN 'module' THEN 'Python of the forward' ELSE o.name END AS operator,
    sum(o.calls) / any_value(n) AS calls, sum(o.self_ns) / any_value(n) AS ns, any_value(n) AS steps,
    any_value(steps.ns) / any_value(n) AS step_ns, any_value(ranks) AS ranks, any_value(marked) AS marked
FROM operator_times o, steps LEFT JOIN modules m ON m.rank = o.rank AND m.module_id = o.module_id
WHERE o.self_ns > 0
GROUP BY o.phase, m.model, o.module, operator ORDER BY ns DESC, operator, o.module
"""


def flame_panel(trace: Trace, _rank: int, _around: int | None, _suspect: str | None) -> Panel | None:
    """Operators of the profiled steps of all ranks in their modules; None where nothing was profiled."""
    frame = trace.sql(_SQL)
    if not frame.height:
        return None
    step_ns = float(frame["step_ns"][0])
    rows = [
        row
        | {"operator": show_name(row["operator"].removeprefix("aten::"))}
        | {key: show_name(row[key], empty="") if row[key] is not None else None for key in ("model", "module")}
        for row in frame.iter_rows(named=True)
    ]
    marked = bool(frame["marked"][0])
    root = tree_of(rows, step_ns, "step" if marked else WHOLE)
    bars = bars_of(root)
    phases = [b for b in bars if b.depth == 1]
    leaves = sorted((b for b in bars if b.leaf and b.phase != REST), key=lambda b: b.start - b.end)
    facts = [
        *(
            [(say("Profiled steps"), number(int(frame["steps"][0]))), (say("A profiled step"), duration(step_ns))]
            if marked
            else [(say("Profiled"), say("{span}, no step is marked", span=duration(step_ns)))]
        ),
        *([(say("Ranks"), number(int(frame["ranks"][0])))] if frame["ranks"][0] > 1 else []),
        *((say("Share of {phase}", phase=say(b.phase)), f"{(b.end - b.start) * 1e6 / root.ns:.1%}") for b in phases),
    ]
    said = "; ".join(f"{_path_words(b.path)} {(b.end - b.start) * 1e6 / root.ns:.0%}" for b in leaves[:3])
    return Panel(
        "flame",
        say("Flame graph"),
        say(
            "Look for a wide bar at the bottom of a deep stack: an operator, in the module above it, that takes much of the step."
            " A wide bar with little below it is Python, or waiting."
        ),
        facts,
        [
            (say("Modules, by the time of their own operators"), _modules(frame, step_ns, marked)),
            *([operators] if (operators := operator_grid(trace)) else []),
        ],
        flame_chart(_frame(bars, root.ns / 1e6), marked=marked),
        say("Time of a profiled step by phase, module and operator; the largest: {said}", said=said)
        if marked
        else say("Time of the profile by phase, module and operator; the largest: {said}", said=said),
    )


def _frame(bars: list[Bar], total: float) -> pl.DataFrame:
    """Rows of the chart; milliseconds rounded to what can be seen."""
    return pl.DataFrame(
        {
            "name": [_word(b.name) for b in bars],
            "path": [_path_words(b.path) for b in bars],
            "colour": [_COLOURS.get(b.phase, "none") for b in bars],
            "depth": [b.depth for b in bars],
            "from": [round(b.start, 5) for b in bars],
            "to": [round(b.end, 5) for b in bars],
            "share": [round((b.end - b.start) / total, 4) for b in bars],
            "calls": [round(b.calls, 1) if b.calls else None for b in bars],
        },
        schema_overrides={"calls": pl.Float64},
    )


def _path_words(path: str) -> str:
    """Phase, modules and operator: the phase and what stands between operators are words, the rest are names."""
    return " › ".join(_word(part) if i == 0 or part == REST else part for i, part in enumerate(path.split(" › ")))


def _word(name: str) -> str:
    return say(name) if name in _COLOURS or name in {REST, WHOLE, "step"} else name


_COLOURS = {"forward": "forward", "backward": "backward", "optimizer": "optimizer", OUTSIDE: "elsewhere"}


def _modules(frame: pl.DataFrame, step_ns: float, marked: bool) -> Grid:
    """The chart in words: modules of each phase, by their own operators."""
    keys = ["phase", "model", "module"]
    first = pl.col("operator").first().alias("most"), pl.col("ns").sum().alias("ns")
    found = frame.group_by(keys, maintain_order=True).agg(*first).sort("ns", descending=True).head(MODULES)
    rows = [
        [
            say(row["phase"] or OUTSIDE),
            _module(row["model"], row["module"]),
            duration(row["ns"]),
            f"{row['ns'] / step_ns:.1%}",
            show_name(row["most"].removeprefix("aten::")),
        ]
        for row in found.iter_rows(named=True)
    ]
    times = [say("a step"), say("of the step")] if marked else ["time", say("of the profile")]
    return Grid(["phase", "module", *times, "mostly"], rows, [False, False, True, True, False])


def _module(model: str | None, module: str | None) -> str:
    """The module of operators; a profile of others names modules and knows no model."""
    if model is None:
        return show_name(module, empty="") if module else ""
    return show_name(module or "", empty=say("the model"))
