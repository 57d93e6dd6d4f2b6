"""Where the time of a step went: its parts over the run, their shares, and the slowest steps."""

import polars as pl

from ...analyzer import Trace
from ..charts.panel_charts import parts_chart
from ..sections.profile_grids import read_grid
from ..text.grid import Grid
from ..text.language import say
from ..text.wording import duration, number
from .panel import Panel

STRETCHES = 200
SLOWEST = 6

PARTS = {
    "data_wait_ns": "data",
    "forward_ns": "forward",
    "backward_ns": "backward",
    "optimizer_ns": "optimizer",
    "rest_ns": "everything else",
}

_SQL = """
WITH taken AS (SELECT step, microbatch, max(batch_size) AS size FROM batches WHERE rank = $rank GROUP BY step, microbatch),
samples AS (SELECT step, sum(size) AS samples FROM taken GROUP BY step)
SELECT s.step, s.step_ns::DOUBLE AS step_ns, s.data_wait_ns::DOUBLE AS data_wait_ns, s.forward_ns::DOUBLE AS forward_ns,
       s.backward_ns::DOUBLE AS backward_ns, s.optimizer_ns::DOUBLE AS optimizer_ns, s.recorder_ns::DOUBLE AS recorder_ns,
       b.samples::DOUBLE AS samples
FROM step_series s LEFT JOIN samples b ON b.step = s.step
WHERE s.rank = $rank AND s.step_ns > 0 ORDER BY s.step
"""


def time_panel(trace: Trace, rank: int, around: int | None, _suspect: str | None) -> Panel | None:
    """Parts of the step's time; None without any step that was timed."""
    frame = trace.sql(_SQL, {"rank": rank})
    if frame.height < 2:
        return None
    measured = [c for c in PARTS if c in frame.columns and frame[c].count()]
    inside = pl.sum_horizontal(pl.col(c).fill_null(0) for c in measured) if measured else pl.lit(0)
    # a part may have begun in the row before: what is left is never less than nothing
    frame = frame.with_columns(pl.max_horizontal(pl.col("step_ns") - inside, pl.lit(0)).alias("rest_ns"))
    parts = [c for c in PARTS if frame[c].count()]
    total = float(frame["step_ns"].sum())
    median = float(frame["step_ns"].median() or 0)  # pyright: ignore[reportArgumentType]  # a number
    facts = [
        (say("Step, median"), duration(median)),
        (say("Steps per second"), number(1e9 / median, digits=3)),
        *(
            [(say("Samples per second"), number(float(frame["samples"].sum()) * 1e9 / total, digits=3))]
            if frame["samples"].count()
            else []
        ),
        *((say("Share of {part}", part=say(PARTS[c])), f"{float(frame[c].sum()) / total:.1%}") for c in parts),
        (say("Recorder, within these"), f"{float(frame['recorder_ns'].sum()) / total:.1%}"),
    ]
    return Panel(
        "time",
        say("Time"),
        say(
            "Look for a part that takes most of every step, and for steps that stand out: a wide data layer means that the model"
            " waits for its input."
        ),
        facts,
        [
            (say("Slowest steps"), _slowest(frame, parts, median)),
            *([reads] if (reads := read_grid(trace, rank)) else []),
        ],
        parts_chart(_stretches(frame, parts), [say(PARTS[c]) for c in parts], around),
        say("Time of a step by part over steps"),
    )


def _stretches(frame: pl.DataFrame, parts: list[str]) -> pl.DataFrame:
    """Mean milliseconds of each part in each of at most STRETCHES stretches of steps."""
    low, high = int(frame["step"][0]), int(frame["step"][-1])
    width = -(-(high - low + 1) // STRETCHES)
    first = ((pl.col("step") - low) // width) * width + low
    means = frame.group_by(first.alias("first")).agg(pl.col(c).mean() / 1e6 for c in parts).sort("first")
    long = means.unpivot(index="first", variable_name="column", value_name="ms").drop_nulls("ms")
    order = pl.col("column").replace_strict({c: i for i, c in enumerate(parts)}, return_dtype=pl.Int64)
    stacked = long.sort("first", order).with_columns(pl.col("ms").cum_sum().over("first").alias("to"))
    return stacked.select(
        "first",
        (pl.col("first") + width).alias("last"),
        pl.col("column").replace_strict({c: say(part) for c, part in PARTS.items()}).alias("part"),
        pl.col("ms").round_sig_figs(4),
        (pl.col("to") - pl.col("ms")).round_sig_figs(5).alias("from"),
        pl.col("to").round_sig_figs(5),
    )


def _slowest(frame: pl.DataFrame, parts: list[str], median: float) -> Grid:
    """The slowest steps, with the part that grew most against its own median."""
    usual = {c: float(frame[c].median() or 0) for c in parts}  # pyright: ignore[reportArgumentType]  # numbers
    rows: list[list[str]] = []
    for row in frame.sort("step_ns", descending=True).head(SLOWEST).iter_rows(named=True):
        grown = max(parts, key=lambda c: (row[c] or 0) - usual[c])
        more = (row[grown] or 0) - usual[grown]
        rows.append(
            [
                str(row["step"]),
                duration(row["step_ns"]),
                f"{row['step_ns'] / median:.1f} ×",
                say("{part}, {more} more than usual", part=say(PARTS[grown]), more=duration(more)) if more > 0 else "",
            ]
        )
    return Grid(["step", "time", say("of the median"), "mostly"], rows, [True, True, True, False])
