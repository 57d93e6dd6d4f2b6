"""Reduce all modules over the whole run to heat maps: one number per module and stretch of steps, for each of six measures.

Sums of a stretch are joined, not picked, so a map of any length costs one pass; the share of lost values is the largest of
the stretch, so that a single bad step never drowns.
"""

import math
from dataclasses import dataclass
from typing import Any

import polars as pl

from ...analyzer import Trace
from ..text.language import say
from .module_health import labelled

COLUMNS = 120
"""Stretches of steps at most: about eight pixels each on a laptop's page."""

MAX_MODULES = 48
"""Rows at most: the suspect, what lies around it, and others spread evenly over the model."""

ROUND = 6
"""Modules before and after the suspect that are always shown."""

MAX_ROWS = 8_000_000
"""Of a larger recording only every so many steps are read, and each step in which a value was lost."""

LOST = -1.0
"""Stands for the value of a stretch in which some of what was measured was NaN or infinite; all measures are positive."""

# Zeros at an end of the range are what a ReLU leaves; one among numbers of both signs is chance, and not always counted.
_CELLS_SQL = """
SELECT m.module_id, m.module, m.model, m.class_name, m.call_order, t.kind, ((s.step - $low) // $width)::INT AS stretch,
       sum(s.numel - s.nan_count - s.inf_count)::DOUBLE AS numel,
       sum(s.sum_sq) AS sum_sq, sum(s.sum) AS total, count(s.sum_sq) AS rows_,
       sum(s.numel) FILTER (s.zero_count IS NOT NULL AND (s.min = 0 OR s.max = 0))::DOUBLE AS zero_numel,
       sum(s.zero_count) FILTER (s.min = 0 OR s.max = 0)::DOUBLE AS zeros,
       max((s.nan_count + s.inf_count) / nullif(s.numel, 0)) AS lost, count(DISTINCT s.tensor_id) AS tensors
FROM tensor_stats s
JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id
JOIN modules m ON m.rank = t.rank AND m.module_id = t.module_id
WHERE s.rank = $rank AND t.kind IN ('activation', 'gradient', 'update', 'parameter') AND t.tensor_name NOT LIKE '%:input%'
  AND s.phase <> 'eval' AND (s.step % $every = 0 OR s.nan_count > 0 OR s.inf_count > 0)
GROUP BY m.module_id, m.module, m.model, m.class_name, m.call_order, t.kind, stretch
"""

_SIZE_SQL = "SELECT min(step) AS low, max(step) AS high, count(*) AS rows_ FROM tensor_stats WHERE rank = $rank"


@dataclass(frozen=True, slots=True)
class Measure:
    """One map: ``values`` by module and stretch, null where not measured, LOST where a value was lost;
    ``log`` asks for a logarithmic scale of colour."""

    key: str
    label: str
    words: str
    log: bool
    values: list[list[float | None]]


@dataclass(frozen=True, slots=True)
class HeatMaps:
    """Maps over the same modules (labels in forward order) and stretches (``starts``: first step of each, ``width`` steps
    long); ``every``: only these steps of a very long recording were read."""

    modules: list[str]
    hidden: int
    starts: list[int]
    width: int
    every: int
    marked_step: int | None
    marked_module: str | None
    measures: list[Measure]


def reduce_heat(trace: Trace, rank: int, around: int | None, suspect: str | None) -> HeatMaps | None:
    """All maps of a rank; None where fewer than two modules or two steps were measured."""
    low, high, rows = trace.sql(_SIZE_SQL, {"rank": rank}).row(0)
    if low is None or high == low:
        return None
    width = -(-(high - low + 1) // COLUMNS)
    every = max(1, rows // MAX_ROWS)
    raw = trace.sql(_CELLS_SQL, {"rank": rank, "low": low, "width": width, "every": every})
    if raw["module_id"].n_unique() < 2:
        return None
    cells = labelled(raw)
    order = _modules(cells, suspect)
    stretches = -(-(high - low + 1) // width)
    shown = order["label"].to_list()
    drawn = cells.join(order.select("label"), on="label", how="semi")
    marked = order.filter(pl.col("module") == pl.lit(suspect))["label"].to_list()
    measures = [
        Measure(key, say(label), say(words), log, _matrix(_values(drawn, key), shown, stretches))
        for key, label, words, log in MEASURES
    ]
    return HeatMaps(
        modules=shown,
        hidden=raw["module_id"].n_unique() - len(shown),
        starts=[low + i * width for i in range(stretches)],
        width=width,
        every=every,
        marked_step=around,
        marked_module=marked[0] if marked else None,
        measures=[m for m in measures if any(v is not None for row in m.values for v in row)],
    )


MEASURES = (
    (
        "gradient",
        "Gradient norm",
        "Norm of the gradients of a module's own parameters. Look for rows that fade towards the first modules.",
        True,
    ),
    (
        "update",
        "Update ratio",
        "How far a step moved a module's weights, relative to their size. A pale row does not learn, a dark one jumps.",
        True,
    ),
    (
        "activation",
        "Activation size",
        "Root mean square of a module's outputs. Look for rows that darken with depth, and for what changes from one step on.",
        True,
    ),
    (
        "zeros",
        "Zero share",
        "Share of exact zeros in a module's outputs. A ReLU has about half; a row near 1 is dead.",
        False,
    ),
    (
        "saturation",
        "Saturation",
        "Mean square of a tanh, or of a sigmoid scaled to [−1, 1]: near 1 its units lie at their bounds and pass no gradient.",
        False,
    ),
    (
        "lost",
        "Non-finite share",
        "Largest share of NaN and infinite elements in anything of a module. The first dark column is where it began.",
        False,
    ),
)
"""Key, label, what to look for, and whether its colours are logarithmic."""


def heat_json(heat: HeatMaps) -> dict[str, Any]:
    """What the page's script is given."""
    return {
        "modules": heat.modules,
        "starts": heat.starts,
        "width": heat.width,
        "step": heat.marked_step,
        "module": heat.marked_module,
        "measures": [
            {"key": m.key, "label": m.label, "words": m.words, "log": m.log, "values": m.values} for m in heat.measures
        ],
    }


def _values(cells: pl.DataFrame, key: str) -> pl.DataFrame:
    """Columns label, stretch, value of one measure."""
    finite = pl.col("sum_sq") / pl.col("numel")
    activations = cells.filter(pl.col("kind") == "activation")
    if key == "gradient":
        # mean of a row, times tensors: the squared norm of all of them in a step of the stretch
        value = (pl.col("sum_sq") / pl.col("rows_") * pl.col("tensors")).sqrt()
        chosen = cells.filter(pl.col("kind") == "gradient").with_columns(value.alias("value"))
    elif key == "update":
        weights = cells.filter(pl.col("kind") == "parameter").select("label", "stretch", finite.alias("weight"))
        chosen = (
            cells.filter(pl.col("kind") == "update")
            .join(weights, on=["label", "stretch"], how="left")
            .sort("label", "stretch")
            # weights may be measured more seldom than updates, and change little meanwhile
            .with_columns(pl.col("weight").forward_fill().backward_fill().over("label"))
            .with_columns(pl.when(pl.col("weight") > 0).then((finite / pl.col("weight")).sqrt()).alias("value"))
        )
    elif key == "activation":
        chosen = activations.with_columns(finite.sqrt().alias("value"))
    elif key == "zeros":
        counted = activations.filter((pl.col("zeros") >= 0).any().over("label"))
        chosen = counted.with_columns((pl.col("zeros") / pl.col("zero_numel")).alias("value"))
    elif key == "saturation":
        value = (
            pl.when(pl.col("class_name") == "Tanh")
            .then(finite)
            .otherwise((4 * pl.col("sum_sq") - 4 * pl.col("total")) / pl.col("numel") + 1)
        )
        bounded = activations.filter(pl.col("class_name").is_in(["Tanh", "Sigmoid"]))
        chosen = bounded.with_columns(value.alias("value"))
    else:
        chosen = cells.group_by("label", "stretch").agg(pl.col("lost").max().alias("value"))
        shown = chosen if (chosen["value"] > 0).any() else chosen.clear()
        return shown.select("label", "stretch", pl.col("value").cast(pl.Float64))
    value = pl.when(pl.col("lost") > 0).then(LOST).otherwise(pl.col("value"))
    return chosen.select("label", "stretch", value.cast(pl.Float64).alias("value")).drop_nulls("value")


def _matrix(values: pl.DataFrame, modules: list[str], stretches: int) -> list[list[float | None]]:
    rows: list[list[float | None]] = [[None] * stretches for _ in modules]
    places = {label: i for i, label in enumerate(modules)}
    for label, stretch, value in values.iter_rows():
        if math.isfinite(value):
            rows[places[label]][stretch] = float(f"{value:.3g}")
    return rows


def _modules(cells: pl.DataFrame, suspect: str | None) -> pl.DataFrame:
    """The modules to show, in forward order: those with weights or with zeros or bounds to look at come before containers."""
    rows = (
        cells.group_by("module_id", "label", "module", "class_name", pl.col("call_order").fill_null(2**31 - 1))
        .agg(
            ((pl.col("kind") == "gradient") | (pl.col("zeros") > 0)).any().fill_null(value=False).alias("own"),
            (pl.col("lost") > 0).any().alias("broken"),
        )
        .sort("call_order", "module_id")
        .with_row_index("place")
    )
    telling = pl.col("own") | pl.col("class_name").is_in(["Tanh", "Sigmoid"]) | (pl.col("module") == pl.lit(suspect))
    rows = rows.with_columns(telling.fill_null(value=False).alias("telling"))
    if rows.height <= MAX_MODULES:
        return rows
    rows = rows.filter("telling").drop("place").with_row_index("place") if rows["telling"].sum() > ROUND else rows
    if rows.height <= MAX_MODULES:
        return rows
    here = rows.filter(pl.col("module") == pl.lit(suspect))["place"].to_list()
    near = set(range(max(0, here[0] - ROUND), here[0] + ROUND + 1)) if here else set()
    room = MAX_MODULES - len(near)
    spread = {round(i * (rows.height - 1) / (room - 1)) for i in range(room)}
    return rows.filter(pl.col("place").is_in(list(near | spread)))
