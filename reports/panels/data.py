"""What went into the training: fields, loaders, repeated batches, labels, and the time that was waited for them."""

from typing import Any

import polars as pl

from ...analyzer import Trace
from ..charts.panel_charts import labels_chart
from ..text.grid import Grid
from ..text.language import say
from ..text.wording import duration, number, shape, show_name
from .panel import Panel

MOST_CLASSES = 64
"""Bars of the label histogram; of more classes neighbours are joined."""

_FIELDS_SQL = """
SELECT field, role, arg_max(dtype, step) AS dtype, arg_max(shape, step) AS shape, count(DISTINCT shape) AS shapes,
       count(*) AS batches, count(fingerprint) AS printed, count(DISTINCT fingerprint) AS distinct_,
       min(min) AS low, max(max) AS high, sum(nan_count) AS nans, sum(inf_count) AS infs
FROM batch_fields WHERE rank = $rank AND phase <> 'eval' GROUP BY field, role ORDER BY min(seq), field LIMIT 32
"""

_LOADERS_SQL = """
SELECT loader_id, max(workers) AS workers, max(epoch) + 1 AS epochs, count(DISTINCT (epoch, batch_index)) AS batches,
       max(batch_size) AS batch_size, median(wait_ns) AS wait, max(wait_ns) AS longest
FROM batches WHERE rank = $rank AND loader_id IS NOT NULL GROUP BY loader_id ORDER BY loader_id
"""

_LABELS_SQL = """
WITH one AS (
    SELECT field FROM batches WHERE rank = $rank AND label_counts IS NOT NULL
    GROUP BY field ORDER BY bool_or(role = 'target') DESC, count(*) DESC, field LIMIT 1
), counted AS (
    SELECT b.field, b.step, unnest(b.label_counts) AS samples, generate_subscripts(b.label_counts, 1) - 1 AS label
    FROM batches b JOIN one USING (field) WHERE b.rank = $rank AND b.label_counts IS NOT NULL
)
SELECT field, label, sum(samples)::DOUBLE AS samples, sum(CASE WHEN step = $around THEN samples END)::DOUBLE AS there
FROM counted GROUP BY field, label ORDER BY label
"""


def data_panel(trace: Trace, rank: int, around: int | None, _suspect: str | None) -> Panel | None:
    """Fields, loaders and labels; None where no batch was seen."""
    fields = trace.sql(_FIELDS_SQL, {"rank": rank}).to_dicts()
    if not fields:
        return None
    grids = [(say("Fields of the batches"), _fields(fields))]
    loaders = trace.sql(_LOADERS_SQL, {"rank": rank}).to_dicts()
    if loaders:
        grids.append((say("Loaders"), _loaders(loaders)))
    labels = trace.sql(_LABELS_SQL, {"rank": rank, "around": -1 if around is None else around})
    chart = None
    if labels.height > 1:
        here = around if labels["there"].count() else None
        chart = labels_chart(_shares(labels), say("Labels, field {field}", field=show_name(labels["field"][0])), here)
    return Panel(
        "data",
        say("Data"),
        say(
            "Look for batches that come again, a range that is not what the model expects, and classes"
            " that are missing or take over"
            " in the first bad step (red ticks)."
        ),
        [],
        grids,
        chart,
        say("Share of each class in the labels"),
    )


def _fields(rows: list[dict[str, Any]]) -> Grid:
    shown = [
        [
            show_name(r["field"]),
            say(r["role"]),
            r["dtype"] or "",
            shape(r["shape"]) + (say(" and {shapes} more", shapes=r["shapes"] - 1) if r["shapes"] > 1 else ""),
            number(r["batches"]),
            number(r["printed"] - r["distinct_"]) if r["printed"] else say("not measured"),
            "" if r["low"] is None else say("{low} to {high}", low=number(r["low"]), high=number(r["high"])),
            number(int(r["nans"] or 0) + int(r["infs"] or 0)),
        ]
        for r in rows
    ]
    columns = ["field", "role", "dtype", "shape", "batches", say("came again"), "range", "NaN or Inf"]
    return Grid(columns, shown, [False, False, False, False, True, True, False, True])


def _loaders(rows: list[dict[str, Any]]) -> Grid:
    shown = [
        [
            number(r["loader_id"]),
            number(r["workers"]),
            number(r["batch_size"]),
            number(r["epochs"]),
            number(r["batches"]),
            duration(r["wait"]),
            duration(r["longest"]),
        ]
        for r in rows
    ]
    columns = ["loader", "workers", say("batch size"), "epochs", "batches", say("wait, median"), "longest"]
    return Grid(columns, shown, [True] * 7)


def _shares(labels: pl.DataFrame) -> pl.DataFrame:
    """Columns label, share, there; neighbours joined where there are more than MOST_CLASSES."""
    width = -(-labels.height // MOST_CLASSES)
    first = (pl.col("label") // width) * width
    joined = (
        labels.group_by(first.alias("first"))
        .agg(pl.col("samples").sum(), pl.col("there").sum(), pl.col("there").count().alias("known"))
        .sort("first")
    )
    name = pl.col("first").cast(pl.String) if width == 1 else pl.format("{}–{}", "first", pl.col("first") + width - 1)
    all_, there = float(joined["samples"].sum()) or 1.0, float(joined["there"].sum())
    share = pl.col("there") / there if there else pl.lit(None, pl.Float64)
    return joined.select(
        name.alias("label"), (pl.col("samples") / all_).round_sig_figs(4).alias("share"), share.alias("there")
    )
