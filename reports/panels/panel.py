"""What a panel of the page is, and what several of them count with."""

from dataclasses import dataclass, field
from typing import Any

import polars as pl

from ..sections.curves import Curve, curve_of
from ..text.grid import Grid


@dataclass(frozen=True, slots=True)
class Panel:
    """One folded part of the page: ``look_for`` says what its chart shows when something is wrong.

    ``grids``: tables with their captions; ``chart``: a Vega-Lite specification, with ``chart_label`` for those who cannot see it.
    """

    key: str
    title: str
    look_for: str
    facts: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    grids: list[tuple[str, Grid]] = field(default_factory=list[tuple[str, Grid]])
    chart: dict[str, Any] | None = None
    chart_label: str = ""


def curve_over(
    frame: pl.DataFrame, name: str, title: str, unit: str, columns: dict[str, str], around: int | None
) -> Curve | None:
    """One curve panel from columns of a frame over ``step``, a line for each that holds any value; ``columns``: column ->
    name of its line. None where all are empty."""
    held = [c for c in columns if frame[c].count()]
    if not held:
        return None
    lines = [
        frame.select(
            "step",
            pl.col(c).cast(pl.Float64).alias("value"),
            pl.lit(columns[c] if len(columns) > 1 else "").alias("line"),
        ).drop_nulls("value")
        for c in held
    ]
    return curve_of(name, title, unit, pl.concat(lines).sort("line", "step"), around)


def kept(*curves: Curve | None) -> list[Curve]:
    """Those curves that have anything to draw."""
    return [c for c in curves if c is not None and (c.points.height or c.marks.height)]
