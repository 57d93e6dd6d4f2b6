"""What the script said itself (metrics) and what happened beside the steps (events, checkpoints)."""

import polars as pl

from ...analyzer import Trace
from ...analyzer.word_patterns import in_words
from ..charts.curves_and_health import curves_chart
from ..sections.curves import curve_of
from ..text.grid import Grid
from ..text.language import say
from ..text.wording import duration, number, show_name, size
from .panel import Panel, kept

MOST_EVENTS = 60
MOST_METRICS = 8

_EVENTS_SQL = """
SELECT step, event, message, count(*) AS times, min(time_ns) AS time_ns FROM events WHERE rank = $rank
GROUP BY step, event, message ORDER BY time_ns LIMIT $most
"""

_CHECKPOINTS_SQL = """
SELECT step, action, path, bytes, ns FROM checkpoints WHERE rank = $rank ORDER BY time_ns LIMIT $most
"""

_METRICS_SQL = """
WITH shown AS (
    SELECT name FROM metrics WHERE rank = $rank GROUP BY name HAVING count(*) > 1 ORDER BY count(*) DESC, name LIMIT $most
)
SELECT m.name, m.step, avg(m.value) AS value FROM metrics m JOIN shown USING (name) WHERE m.rank = $rank
GROUP BY m.name, m.step ORDER BY m.name, m.step
"""


def happenings_panel(trace: Trace, rank: int, around: int | None, _suspect: str | None) -> Panel | None:
    """Metrics, events and checkpoints; None without any."""
    events = trace.sql(_EVENTS_SQL, {"rank": rank, "most": MOST_EVENTS})
    checkpoints = trace.sql(_CHECKPOINTS_SQL, {"rank": rank, "most": MOST_EVENTS})
    metrics = trace.sql(_METRICS_SQL, {"rank": rank, "most": MOST_METRICS})
    grids: list[tuple[str, Grid]] = []
    if events.height:
        grids.append((say("Events"), _events(events)))
    if checkpoints.height:
        grids.append((say("Checkpoints and loaded states"), _checkpoints(checkpoints)))
    curves = [
        curve_of(
            f"metric{i}",
            show_name(name),
            "",
            metrics.filter(pl.col("name") == name)
            .select("step", "value", pl.lit("").alias("line"))
            .drop_nulls("value"),
            around,
        )
        for i, name in enumerate(metrics["name"].unique().sort().to_list())
    ]
    shown = kept(*curves)
    if not grids and not shown:
        return None
    return Panel(
        "happenings",
        say("Metrics, events and checkpoints"),
        say(
            "Look for what happened at or just before the first bad step: a mode that changed, a state"
            " that was loaded, a warning."
        ),
        [],
        grids,
        curves_chart(shown, around),
        say("Values that the script logged over steps"),
    )


def _events(frame: pl.DataFrame) -> Grid:
    rows = [
        [
            number(r["step"]),
            r["event"],
            show_name(in_words("event", r["message"]), empty="") + (f" ({r['times']} ×)" if r["times"] > 1 else ""),
        ]
        for r in frame.iter_rows(named=True)
    ]
    return Grid(["step", "event", "what"], rows, [True, False, False])


def _checkpoints(frame: pl.DataFrame) -> Grid:
    rows = [
        [
            number(r["step"]),
            r["action"],
            show_name(r["path"], empty=""),
            "" if r["bytes"] is None else size(r["bytes"]),
            "" if r["ns"] is None else duration(r["ns"]),
        ]
        for r in frame.iter_rows(named=True)
    ]
    return Grid(["step", "action", "file", "size", "took"], rows, [True, False, False, True, True])
