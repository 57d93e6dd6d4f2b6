"""Charts that only panels have: layers of time on each other, bands of values, bars of labels."""

from typing import Any

import altair as alt
import polars as pl
from altair.utils.schemapi import debug_mode

from .charts import AXIS_NUMBER, DataSets, chart_config, rows_of, spec_of

PART_COLOURS = ("var(--series-2)", "var(--series-1)", "var(--series-4)", "var(--series-3)", "var(--state-missing)")
"""Colours of the parts of a step, in order."""


def parts_chart(frame: pl.DataFrame, parts: list[str], around: int | None) -> dict[str, Any]:
    """Milliseconds of a step by part, on each other; columns first (step), last, part, ms, from, to."""
    sets = DataSets()
    with debug_mode(False):
        base = alt.Chart(sets.named(rows_of(frame)))
        colour = alt.Color(
            "part:N",
            sort=parts,
            scale=alt.Scale(domain=parts, range=list(PART_COLOURS[: len(parts)])),
            legend=alt.Legend(title=None, orient="top", symbolType="square", columns=3),
        )
        x = alt.X("first:Q", scale=alt.Scale(nice=False, zero=False), axis=_steps_axis())
        bars = base.mark_rect().encode(
            x=x,
            x2="last:Q",
            y=alt.Y("from:Q", axis=alt.Axis(title=None, labelExpr=AXIS_NUMBER)),
            y2="to:Q",
            color=colour,
            tooltip=[
                alt.Tooltip("first:Q", title="from step", format="~d"),
                alt.Tooltip("part:N"),
                alt.Tooltip("ms:Q", title="ms a step", format=".3~g"),
            ],
        )
        layers = [bars, *_mark(sets, around, "first")]
        chart = alt.layer(*layers).properties(height=170, width=600, title="Time of a step by part, ms")
        return spec_of(chart.configure(**chart_config()), sets)


def bands_chart(bands: list[tuple[str, pl.DataFrame]], around: int | None) -> dict[str, Any]:
    """For each tensor its range (pale), mean ± standard deviation (strong) and mean over steps; columns step, low, high,
    lower, upper, mean."""
    sets = DataSets()
    panels: list[alt.LayerChart | alt.FacetChart] = []
    with debug_mode(False):
        for i, (title, frame) in enumerate(bands):
            base = alt.Chart(sets.named(rows_of(frame)))
            axis = _steps_axis() if i == len(bands) - 1 else alt.Axis(title=None, labels=False, grid=False)
            x = alt.X("step:Q", scale=alt.Scale(nice=False, zero=False), axis=axis)
            y = alt.Axis(title=None, tickCount=3, labelExpr=AXIS_NUMBER)
            tip = [
                alt.Tooltip("step:Q", format="~d"),
                *(alt.Tooltip(f"{c}:Q", format=".4~g") for c in ("high", "upper", "mean", "lower", "low")),
            ]
            layers = [
                base.mark_area(opacity=0.18, color="var(--series-1)", clip=True).encode(
                    x=x, y=alt.Y("low:Q", axis=y), y2="high:Q", tooltip=tip
                ),
                base.mark_area(opacity=0.38, color="var(--series-1)", clip=True).encode(
                    x=x, y="lower:Q", y2="upper:Q", tooltip=tip
                ),
                base.mark_line(strokeWidth=1.4, color="var(--series-1)", clip=True).encode(x=x, y="mean:Q"),
                *_mark(sets, around, "step"),
            ]
            panels.append(alt.layer(*layers).properties(height=84, width=600, title=title))
        chart = alt.vconcat(*panels, spacing=14).resolve_scale(x="shared")
        return spec_of(chart.configure(**chart_config()), sets)


def labels_chart(frame: pl.DataFrame, title: str, step: int | None) -> dict[str, Any]:
    """Share of each class over the run as bars, and in the first bad step as ticks; columns label (in order), share, there."""
    sets = DataSets()
    with debug_mode(False):
        base = alt.Chart(sets.named(rows_of(frame)))
        x = alt.X("label:O", sort=None, axis=alt.Axis(title="class", labelAngle=0, labelOverlap=True))
        tip = [alt.Tooltip("label:O", title="class"), alt.Tooltip("share:Q", title="whole run", format=".2%")]
        y = alt.Axis(title=None, format="~%", tickCount=4)
        layers = [
            base.mark_bar(color="var(--series-1)", opacity=0.75).encode(x=x, y=alt.Y("share:Q", axis=y), tooltip=tip)
        ]
        if step is not None:
            there = alt.Tooltip("there:Q", title=f"step {step}", format=".2%")
            layers.append(
                base.transform_filter("isValid(datum.there)")
                .mark_tick(color="var(--fault)", thickness=2.5)
                .encode(x=x, y="there:Q", tooltip=[*tip, there])
            )
        chart = alt.layer(*layers).properties(height=130, width=600, title=title)
        return spec_of(chart.configure(**chart_config()), sets)


def _steps_axis() -> alt.Axis:
    return alt.Axis(title="step", format="~d", tickMinStep=1, grid=False)


def _mark(sets: DataSets, around: int | None, column: str) -> list[alt.Chart]:
    if around is None:
        return []
    rule = alt.Chart(sets.named([{column: around}]))
    return [rule.mark_rule(color="var(--fault)", strokeWidth=1.4, strokeDash=[4, 3], clip=True).encode(x=f"{column}:Q")]
