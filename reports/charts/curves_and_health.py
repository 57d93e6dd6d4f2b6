"""Charts as Vega-Lite specifications, built with altair from reduced data. Colours are CSS variables of the page.

SVG takes ``var(--name)`` for a colour, so light, dark and print need no second chart. Widths and steps are set in the
browser (page.js), which knows the size of the screen.
"""

from typing import Any

import altair as alt
import polars as pl
from altair.utils.schemapi import debug_mode

from ..sections.curves import Curve
from ..sections.module_health import STATES, HealthMap
from ..text.language import say

PANEL_HEIGHTS = {"loss": 150, "grad_norm": 110}
"""Height of a panel in pixels; the others get DEFAULT_HEIGHT."""

DEFAULT_HEIGHT = 76
ROW_HEIGHT = 17
"""Height of one module in the health map, in pixels."""

STATE_WORDS = {
    "nonfinite": "NaN or Inf",
    "x100": "≥ 100 × usual",
    "x10": "≥ 10 × usual",
    "x3": "≥ 3 × usual",
    "usual": "usual size",
    "d3": "≤ 1/3 of usual",
    "d10": "≤ 1/10 of usual",
    "d100": "≤ 1/100 of usual",
    "zero": "all zero",
    "finite": "finite, no history",
    "missing": "no gradient",
}
WHOLE_NUMBER = "datum.value % 1 ? '' : datum.label"
"""Labels of steps: of few steps the axis puts ticks between them, which no whole number names."""

AXIS_NUMBER = (
    "datum.value != 0 && (abs(datum.value) >= 1e5 || abs(datum.value) < 1e-4)"
    " ? format(datum.value, '.2~e') : format(datum.value, '.5~r')"
)
"""Plain numbers where they are short, powers of ten where not."""

SERIES_COLOURS = [f"var(--series-{i})" for i in range(1, 5)]


def curves_chart(curves: list[Curve], around: int | None, marked: str = "first anomaly") -> dict[str, Any] | None:
    """All panels over one shared axis of steps, ``around`` marked with a line and the word ``marked``. None where there is
    nothing to draw."""
    if not curves:
        return None
    words = None if around is None else say("{marked}, step {around}", marked=say(marked), around=around)
    sets = DataSets()
    with debug_mode(False):
        panels = [
            _panel(sets, c, around, words if i == 0 else None, last=i == len(curves) - 1) for i, c in enumerate(curves)
        ]
        chart = alt.vconcat(*panels, spacing=14).resolve_scale(x="shared", color="independent")
        spec = spec_of(chart.configure(**chart_config()), sets)
    # Set here because altair attaches a parameter to every layer of a panel, and Vega-Lite wants one view a panel.
    for curve, panel in zip(curves, spec["vconcat"], strict=True):
        panel["layer"][0]["name"], panel["layer"][1]["name"] = f"line_{curve.name}", f"points_{curve.name}"
    spec["params"] = [_zoom(curves), *(_nearest(c) for c in curves)]
    return spec


def health_chart(health: HealthMap) -> dict[str, Any]:
    """Modules in forward order against steps; the first bad step and the suspected module are framed."""
    sets = DataSets()
    with debug_mode(False):
        words = {s: say(w) for s, w in STATE_WORDS.items()}
        shown = [s for s in STATES if s in set(health.cells["state"])]
        cells = health.cells.with_columns(pl.col("state").replace_strict(words).alias("state"))
        x = alt.X("step:O", axis=alt.Axis(title=say("step"), labelAngle=0, labelOverlap=True, orient="top"))
        y = alt.Y("module:N", sort=health.modules, axis=alt.Axis(title=None, labelLimit=300))
        base = alt.Chart(sets.named(rows_of(cells)))
        squares = base.mark_rect(stroke="var(--paper)", strokeWidth=1.5, cornerRadius=3).encode(
            x=x,
            y=y,
            color=alt.Color(
                "state:N",
                scale=alt.Scale(domain=[words[s] for s in shown], range=[f"var(--state-{s})" for s in shown]),
                legend=alt.Legend(title=None, orient="bottom", direction="horizontal", columns=0, symbolType="square"),
            ),
            tooltip=[
                alt.Tooltip("module:N", title=say("module")),
                alt.Tooltip("step:O", title=say("step")),
                alt.Tooltip("state:N", title=say("state")),
                alt.Tooltip("rms:Q", title=say("root mean square"), format=".4~g"),
                alt.Tooltip("ratio:Q", title=say("× usual"), format=".3~g"),
                alt.Tooltip("nan_count:Q", title="NaN"),
                alt.Tooltip("inf_count:Q", title="Inf"),
            ],
        )
        crosses = (
            base.transform_filter(alt.datum.state == words["nonfinite"])
            .mark_text(text="✕", fontSize=9, fontWeight="bold", color="var(--on-fault)", tooltip=False)
            .encode(x=x, y=y)
        )
        layers: list[alt.Chart] = [squares, crosses]
        frame = [{"step": health.marked_step, "module": m} for m in health.modules if m == health.marked_module]
        if frame and health.marked_step is not None and health.first <= health.marked_step <= health.last:
            layers.append(
                alt.Chart(sets.named(frame))
                .mark_rect(fill=None, stroke="var(--ink)", strokeWidth=2, cornerRadius=3, tooltip=False)
                .encode(x=x, y=y)
            )
        chart = alt.layer(*layers).properties(height={"step": ROW_HEIGHT}, width=600)
        return spec_of(chart.configure(**chart_config()), sets)


def _panel(
    sets: "DataSets", curve: Curve, around: int | None, words: str | None, *, last: bool
) -> alt.LayerChart | alt.FacetChart:
    x = alt.X(
        "step:Q",
        scale=alt.Scale(nice=False, zero=False),
        axis=alt.Axis(
            title=say("step") if last else None,
            labels=last,
            format="~d",
            labelExpr=WHOLE_NUMBER,
            tickMinStep=1,
            grid=False,
        ),
    )
    scale = alt.Scale(type="log", padding=3) if curve.log else alt.Scale(zero=False, nice=True, padding=3)
    y = alt.Y(
        "value:Q",
        scale=scale,
        axis=alt.Axis(title=None, tickCount=4 if curve.name in PANEL_HEIGHTS else 3, labelExpr=AXIS_NUMBER),
    )
    lines = sorted(set(curve.points["line"])) if curve.points.height else []
    several = len(lines) > 1
    colour = (
        alt.Color(
            "line:N",
            scale=alt.Scale(domain=lines, range=[SERIES_COLOURS[i % 4] for i in range(len(lines))]),
            legend=alt.Legend(title=None, orient="top", columns=3, offset=2) if len(lines) <= 12 else None,
        )
        if several
        else alt.ColorValue("var(--series-1)")
    )
    points = alt.Chart(sets.named(rows_of(curve.points if several else curve.points.drop("line"))))
    near = alt.selection_point(name=_near(curve), empty=False)
    layers: list[alt.Chart] = [
        points.mark_line(
            strokeWidth=0.8 if curve.trend.height else 1.6,
            opacity=0.3 if curve.trend.height else 1,
            clip=True,
            strokeJoin="round",
        ).encode(x=x, y=y, color=colour),
        points.transform_filter("isValid(datum.value)")
        .mark_point(filled=True, size=46, clip=True)
        .encode(
            x=x,
            y=y,
            color=colour,
            opacity=alt.condition(near, alt.value(1), alt.value(0)),
            tooltip=[
                alt.Tooltip("step:Q", title=say("step"), format="~d"),
                alt.Tooltip("value:Q", title=curve.title, format=".5~g"),
                *([alt.Tooltip("line:N", title=say("group"))] if several else []),
            ],
        ),
    ]
    if curve.trend.height:
        trend = alt.Chart(sets.named(rows_of(curve.trend if several else curve.trend.drop("line"))))
        layers.append(trend.mark_line(strokeWidth=1.8, clip=True).encode(x=x, y=y, color=colour))
    if curve.marks.height:
        layers += _nonfinite_layers(sets, curve, x)
    if around is not None:
        layers += _anomaly_layers(sets, around, x, words)
    title = ", ".join(words for words in (curve.title, curve.unit, say("log scale") if curve.log else "") if words)
    return alt.layer(*layers).properties(height=PANEL_HEIGHTS.get(curve.name, DEFAULT_HEIGHT), width=600, title=title)


def _zoom(curves: list[Curve]) -> dict[str, Any]:
    wheel = "wheel![event.ctrlKey || event.metaKey]"  # a bare wheel scrolls the page
    select = {"type": "interval", "encodings": ["x"], "zoom": wheel}
    return {"name": "zoom", "select": select, "bind": "scales", "views": [f"line_{c.name}" for c in curves]}


def _nearest(curve: Curve) -> dict[str, Any]:
    select = {"type": "point", "nearest": True, "on": "pointerover", "clear": "pointerout", "fields": ["step"]}
    return {"name": _near(curve), "select": select, "views": [f"points_{curve.name}"]}


def _near(curve: Curve) -> str:
    return f"near_{curve.name}"


def _mark_words(mark: dict[str, Any]) -> str:
    wanted = {key: mark[key] for key in ("what", "count", "first", "last")}
    return say("{what} on {count} of the steps {first} to {last}", **wanted)


def _nonfinite_layers(sets: "DataSets", curve: Curve, x: alt.X) -> list[alt.Chart]:
    marks = curve.marks.with_columns(
        pl.Series("words", [_mark_words(mark) for mark in curve.marks.iter_rows(named=True)], dtype=pl.String),
        pl.col("first").alias("step"),
    )
    base = alt.Chart(sets.named(rows_of(marks)))
    tip = [alt.Tooltip("words:N", title=curve.title)]
    return [
        base.mark_rule(strokeWidth=4, color="var(--fault)", clip=True, opacity=0.55).encode(
            x=x, x2=alt.X2("last:Q"), y=alt.YValue(5), tooltip=tip
        ),
        base.mark_point(shape="triangle-down", filled=True, size=64, color="var(--fault)", opacity=1, clip=True).encode(
            x=x, y=alt.YValue(6), tooltip=tip
        ),
        base.transform_window(order="row_number()", sort=[alt.SortField("first")])
        .transform_filter("datum.order == 1")
        .mark_text(align="left", dx=7, dy=3, color="var(--fault)", fontSize=11, fontWeight=600, clip=True)
        .encode(x=x, y=alt.YValue(12), text=alt.Text("what:N")),
    ]


def _anomaly_layers(sets: "DataSets", around: int, x: alt.X, words: str | None) -> list[alt.Chart]:
    base = alt.Chart(sets.named([{"step": around, "words": words or ""}]))
    rule = base.mark_rule(color="var(--fault)", strokeWidth=1.4, strokeDash=[4, 3], clip=True).encode(x=x)
    if words is None:
        return [rule]
    label = base.mark_text(align="right", dx=-6, color="var(--fault)", fontSize=11, fontWeight=600, clip=True)
    return [rule, label.encode(x=x, y=alt.YValue(8), text=alt.Text("words:N"))]


def chart_config() -> dict[str, Any]:
    """Look of all charts: quiet axes, colours of the page."""
    axis = alt.AxisConfig(
        labelColor="var(--muted)",
        titleColor="var(--muted)",
        gridColor="var(--line)",
        domainColor="var(--line-strong)",
        tickColor="var(--line-strong)",
        labelFontSize=11,
        titleFontSize=11,
        titleFontWeight="normal",
        labelPadding=5,
        domain=False,
        ticks=False,
    )
    return {
        "background": "transparent",
        "font": "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif",
        "view": alt.ViewConfig(stroke=None),
        "axis": axis,
        "axisY": alt.AxisConfig(minExtent=46, maxExtent=46),
        "legend": alt.LegendConfig(
            labelColor="var(--ink)", titleColor="var(--muted)", labelFontSize=11, symbolStrokeWidth=0
        ),
        "title": alt.TitleConfig(
            anchor="start",
            color="var(--ink)",
            fontSize=12,
            fontWeight=600,
            offset=6,
        ),
    }


def rows_of(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """Rows for JSON, which knows no NaN: reduced frames hold finite numbers and nulls, anything else becomes null."""
    finite = [pl.when(pl.col(c).is_finite()).then(pl.col(c)) for c, t in frame.schema.items() if t.is_float()]
    return frame.with_columns(finite).to_dicts()


class DataSets:
    """Rows that a chart refers to by name: altair copies and checks what it is given several times over, and a page need not
    hold the points of a curve once for each layer."""

    def __init__(self) -> None:
        self.rows: dict[str, list[dict[str, Any]]] = {}

    def named(self, rows: list[dict[str, Any]]) -> alt.NamedData:
        """Keep rows; returns what a chart takes for its data."""
        name = f"d{len(self.rows)}"
        self.rows[name] = rows
        return alt.NamedData(name)


def spec_of(chart: alt.TopLevelMixin, sets: DataSets) -> dict[str, Any]:
    """The finished specification, with the rows that it refers to."""
    spec = chart.to_dict(validate=False, context={"data_transformers_enabled": False})
    spec.pop("$schema", None)  # an address that the page has no use for
    spec["datasets"] = sets.rows
    return spec
