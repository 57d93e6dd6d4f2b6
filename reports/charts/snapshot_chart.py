"""The chart of a memory snapshot: areas on each other over the events of the allocator, a colour for each line of the script."""

from typing import Any

import altair as alt
import polars as pl
from altair.utils.schemapi import debug_mode

from ..text.language import say
from .curves_and_health import AXIS_NUMBER, DataSets, chart_config, rows_of, spec_of

_COLOURS = (
    *("var(--series-1)", "var(--series-2)", "var(--series-3)", "var(--series-4)"),
    *("#7f6db0", "#4f9d9d", "#b5838d", "#8a9a5b", "#6d8fb3"),
)
_OTHERS = "var(--state-missing)"

_LONGEST = 48
"""Characters of a line's name in the legend; the end, with file and line, is kept."""


def timeline_chart(frame: pl.DataFrame) -> dict[str, Any]:
    """Memory in use after each event; columns event, line, place, from, to, bytes."""
    named = frame.with_columns(
        pl.col("line").map_elements(_shortened, return_dtype=pl.String).alias("short"),
        (pl.col("from") / 1e9).alias("low"),
        (pl.col("to") / 1e9).alias("high"),
        (pl.col("bytes") / 1e9).alias("gb"),
    )
    lines = named.select("short", "place").unique().sort("place")["short"].to_list()
    colours = [*_COLOURS[: len(lines) - 1], _OTHERS] if len(lines) > 1 else [_COLOURS[0]]
    sets = DataSets()
    with debug_mode(False):
        areas = (
            alt.Chart(sets.named(rows_of(named.select("event", "short", "line", "low", "high", "gb"))))
            .mark_area(interpolate="step-after", opacity=0.85)
            .encode(
                x=alt.X(
                    "event:Q",
                    scale=alt.Scale(nice=False, zero=False),
                    axis=alt.Axis(title=say("event of the allocator")),
                ),
                y=alt.Y("low:Q", axis=alt.Axis(title=None, labelExpr=AXIS_NUMBER)),
                y2=alt.Y2("high:Q"),
                color=alt.Color(
                    "short:N",
                    sort=lines,
                    scale=alt.Scale(domain=lines, range=colours),
                    legend=alt.Legend(title=None, orient="bottom", symbolType="square", columns=2, labelLimit=330),
                ),
                tooltip=[
                    alt.Tooltip("line:N", title=say("allocated in")),
                    alt.Tooltip("gb:Q", title="GB", format=".3~g"),
                    alt.Tooltip("event:Q", title=say("event"), format="~d"),
                ],
            )
        )
        chart = areas.properties(height=260, width=600, title=say("Memory in use by the line that allocated it, GB"))
        return spec_of(chart.configure(**chart_config()), sets)


def _shortened(line: str) -> str:
    return line if len(line) <= _LONGEST else "…" + line[-_LONGEST + 1 :]
