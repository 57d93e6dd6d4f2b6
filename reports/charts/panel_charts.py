"""Charts that only panels have: layers of time on each other, bands of values, bars of labels."""

from typing import Any

import altair as alt
import polars as pl
from altair.utils.schemapi import debug_mode

from ..text.language import say
from .curves_and_health import AXIS_NUMBER, WHOLE_NUMBER, DataSets, chart_config, rows_of, spec_of

PART_COLOURS = ("var(--series-2)", "var(--series-1)", "var(--series-4)", "var(--series-3)", "var(--state-missing)")
"""Colours of the parts of a step, in order."""

FLAME_COLOURS = {
    "forward": "var(--series-1)",
    "backward": "var(--series-4)",
    "optimizer": "var(--series-3)",
    "elsewhere": "var(--series-2)",
    "none": "var(--state-missing)",
}
"""Those of the same parts of a step; the step itself and what is between operators have none."""

_FLAME_ROW = 19  # pixels
_NAMED = 0.03  # share of the step from which a bar has room for its name


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
            x2=alt.X2("last:Q"),
            y=alt.Y("from:Q", axis=alt.Axis(title=None, labelExpr=AXIS_NUMBER)),
            y2=alt.Y2("to:Q"),
            color=colour,
            tooltip=[
                alt.Tooltip("first:Q", title=say("from step"), format="~d"),
                alt.Tooltip("part:N", title=say("part")),
                alt.Tooltip("ms:Q", title=say("ms a step"), format=".3~g"),
            ],
        )
        layers = [bars, *_mark(sets, around, "first")]
        chart = alt.layer(*layers).properties(height=170, width=600, title=say("Time of a step by part, ms"))
        return spec_of(chart.configure(**chart_config()), sets)


def lanes_chart(frame: pl.DataFrame) -> dict[str, Any]:
    """A lane for each rank, divided into parts; columns lane, part, share."""
    sets = DataSets()
    parts = frame["part"].unique(maintain_order=True).to_list()
    lanes = frame["lane"].unique(maintain_order=True).to_list()
    with debug_mode(False):
        bars = (
            alt.Chart(sets.named(rows_of(frame)))
            .mark_bar()
            .encode(
                x=alt.X(
                    "share:Q",
                    axis=alt.Axis(title=say("share of the profiled time"), format="%"),
                    scale=alt.Scale(domain=[0, 1], nice=False),
                    stack="zero",
                ),
                y=alt.Y("lane:N", sort=lanes, axis=alt.Axis(title=None)),
                color=alt.Color(
                    "part:N",
                    sort=parts,
                    scale=alt.Scale(domain=parts, range=[*PART_COLOURS[1:3], PART_COLOURS[-1]]),
                    legend=alt.Legend(title=None, orient="top", symbolType="square"),
                ),
                tooltip=[
                    alt.Tooltip("lane:N", title="rank"),
                    alt.Tooltip("part:N", title=say("part")),
                    alt.Tooltip("share:Q", title=say("share"), format=".1%"),
                ],
            )
        )
        chart = bars.properties(height=alt.Step(14), width=600, title=say("What the device of each rank did"))
        return spec_of(chart.configure(**chart_config()), sets)


def flame_chart(frame: pl.DataFrame, *, marked: bool = True) -> dict[str, Any]:
    """Bars on bars: what runs inside a bar stands below it; columns name, path, colour, depth, from, to, share, calls.

    ``marked``: the bars are those of a step; else those of a profile without steps.
    """
    sets = DataSets()
    deepest = int(frame["depth"].max() or 0) + 1  # pyright: ignore[reportArgumentType]  # a number
    kinds = [k for k in FLAME_COLOURS if k in set(frame["colour"])]
    with debug_mode(False):
        base = alt.Chart(sets.named(rows_of(frame)))
        x = alt.X(
            "from:Q",
            scale=alt.Scale(nice=False, zero=True),
            axis=alt.Axis(title=say("ms of a step") if marked else "ms", grid=False),
        )
        y = alt.Y("depth:Q", scale=alt.Scale(domain=[deepest, 0], nice=False), axis=None)
        bars = (
            base.transform_calculate(below="datum.depth + 1")
            .mark_rect(stroke="var(--paper)", strokeWidth=1)
            .encode(
                x=x,
                x2=alt.X2("to:Q"),
                y=y,
                y2=alt.Y2("below:Q"),
                color=alt.Color(
                    "colour:N",
                    scale=alt.Scale(domain=kinds, range=[FLAME_COLOURS[k] for k in kinds]),
                    legend=alt.Legend(
                        title=None,
                        orient="top",
                        symbolType="square",
                        columns=3,
                        values=[k for k in kinds if k != "none"],
                    ),
                ),
                opacity=alt.condition("datum.calls === null", alt.value(0.45), alt.value(0.8)),
                tooltip=[
                    alt.Tooltip("path:N", title=say("where")),
                    alt.Tooltip("ms:Q", title=say("ms a step") if marked else "ms", format=".3~g"),
                    alt.Tooltip("share:Q", title=say("of the step") if marked else say("of the profile"), format=".1%"),
                    alt.Tooltip("calls:Q", title=say("calls a step") if marked else say("calls"), format=".3~g"),
                ],
            )
            .transform_calculate(ms="datum.to - datum.from")
        )
        room = "scale('x', datum.to) - scale('x', datum.from) - 8"
        names = (
            base.transform_filter(f"datum.share > {_NAMED}")
            .transform_calculate(middle="datum.depth + 0.5")
            .mark_text(
                align="left",
                baseline="middle",
                dx=4,
                fontSize=11,
                limit=alt.ExprRef(f"max(1, {room})"),
                text=alt.ExprRef(f"{room} > 14 ? datum.name : ''"),
                color="var(--ink)",
                tooltip=None,
            )
            .encode(x=x, y=alt.Y("middle:Q", scale=alt.Scale(domain=[deepest, 0], nice=False)))
        )
        chart = alt.layer(bars, names).properties(
            height=deepest * _FLAME_ROW,
            width=600,
            title=say("Profiled step, ms") if marked else say("Whole profile, ms"),
        )
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
                alt.Tooltip("step:Q", title=say("step"), format="~d"),
                *(
                    alt.Tooltip(f"{c}:Q", title=say(c), format=".4~g")
                    for c in ("high", "upper", "mean", "lower", "low")
                ),
            ]
            layers = [
                base.mark_area(opacity=0.18, color="var(--series-1)", clip=True).encode(
                    x=x, y=alt.Y("low:Q", axis=y), y2=alt.Y2("high:Q"), tooltip=tip
                ),
                base.mark_area(opacity=0.38, color="var(--series-1)", clip=True).encode(
                    x=x, y=alt.Y("lower:Q"), y2=alt.Y2("upper:Q"), tooltip=tip
                ),
                base.mark_line(strokeWidth=1.4, color="var(--series-1)", clip=True).encode(x=x, y=alt.Y("mean:Q")),
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
        x = alt.X("label:O", sort=None, axis=alt.Axis(title=say("class"), labelAngle=0, labelOverlap=True))
        tip = [alt.Tooltip("label:O", title=say("class")), alt.Tooltip("share:Q", title=say("whole run"), format=".2%")]
        y = alt.Axis(title=None, format="~%", tickCount=4)
        layers = [
            base.mark_bar(color="var(--series-1)", opacity=0.75).encode(x=x, y=alt.Y("share:Q", axis=y), tooltip=tip)
        ]
        if step is not None:
            there = alt.Tooltip("there:Q", title=say("step {step}", step=step), format=".2%")
            layers.append(
                base.transform_filter("isValid(datum.there)")
                .mark_tick(color="var(--fault)", thickness=2.5)
                .encode(x=x, y=alt.Y("there:Q"), tooltip=[*tip, there])
            )
        chart = alt.layer(*layers).properties(height=130, width=600, title=title)
        return spec_of(chart.configure(**chart_config()), sets)


def _steps_axis() -> alt.Axis:
    return alt.Axis(title=say("step"), format="~d", labelExpr=WHOLE_NUMBER, tickMinStep=1, grid=False)


def _mark(sets: DataSets, around: int | None, column: str) -> list[alt.Chart]:
    if around is None:
        return []
    rule = alt.Chart(sets.named([{column: around}]))
    return [
        rule.mark_rule(color="var(--fault)", strokeWidth=1.4, strokeDash=[4, 3], clip=True).encode(
            x=alt.X(f"{column}:Q")
        )
    ]
