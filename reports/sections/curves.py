"""Reduce numbers over steps: a run of any length becomes curves of about POINTS points that keep what matters.

Kept of every bucket of steps: its lowest, highest and first finite value; kept whole: the steps round the first
anomaly.
Non-finite values become marks with the range of steps that they fill, never holes without a word.
"""

import math
from dataclasses import dataclass

import polars as pl

from ...analyzer import Trace
from ..text.language import say

POINTS = 1500
"""Most points of one curve: three per bucket, so 500 buckets, about one per two pixels of a laptop's page."""

NEIGHBOURHOOD = 40
"""Steps kept whole on either side of the first anomaly."""

LOG_RATIO = 50.0
"""A positive curve whose largest value is this many times its smallest is drawn on a log scale."""

_STEPS_SQL = """
SELECT s.step,
       avg(s.loss) AS loss,
       max(s.grad_norm) AS grad_norm,
       max(s.clip_norm) AS clip_norm,
       sum(s.step_ns)::BIGINT AS step_ns,
       sum(s.data_wait_ns)::BIGINT AS data_wait_ns,
       sum(s.recorder_ns)::BIGINT AS recorder_ns,
       sum(s.journal_bytes)::BIGINT AS journal_bytes,
       max(s.rss_bytes) AS rss_bytes,
       bool_or(s.stepped) AS stepped,
       bool_and(s.completed) AS completed,
       bool_or(s.skipped_by_scaler) AS skipped_by_scaler
FROM steps s
WHERE s.rank = $rank
GROUP BY s.step
ORDER BY s.step
"""

_LOSSES_SQL = "SELECT step, loss FROM losses WHERE rank = $rank ORDER BY step"

_GROUPS_SQL = """
SELECT g.step, g.optimizer_id, g.group_id, g.lr, g.update_norm, g.weight_norm
FROM param_groups g
WHERE g.rank = $rank
ORDER BY g.step, g.optimizer_id, g.group_id
"""


@dataclass(frozen=True, slots=True)
class Curve:
    """One panel of the chart.

    ``points``: columns step, value (finite, or null where the line breaks) and line (name of the curve in the panel).
    ``trend``: the median of every bucket, in the same columns; without rows where no step was left out.
    ``marks``: columns first, last (steps), count and what (``NaN`` or ``Inf``). ``log`` asks for a log scale.
    """

    name: str
    title: str
    unit: str
    points: pl.DataFrame
    trend: pl.DataFrame
    marks: pl.DataFrame
    log: bool


def step_frame(trace: Trace, rank: int) -> pl.DataFrame:
    """One row per step of a rank: ``steps`` over all optimizers, with lr and update_ratio of ``param_groups``.

    update_ratio is the norm of all changes over the norm of all weights; null where updates were not measured.
    """
    steps = trace.sql(_STEPS_SQL, {"rank": rank})
    ratio = (
        group_frame(trace, rank)
        .group_by("step")
        .agg(
            pl.col("lr").max(),
            pl.col("update_norm").pow(2).sum().sqrt().alias("update"),
            pl.col("weight_norm").pow(2).sum().sqrt().alias("weight"),
            (pl.col("update_norm").is_not_null() & (pl.col("weight_norm") > 0)).any().alias("measured"),
        )
        .with_columns(pl.when("measured").then(pl.col("update") / pl.col("weight")).alias("update_ratio"))
        .select("step", "lr", "update_ratio")
    )
    return steps.join(ratio, on="step", how="left").sort("step")


def group_frame(trace: Trace, rank: int) -> pl.DataFrame:
    """One row per step and parameter group of a rank: lr, update_norm and weight_norm."""
    return trace.sql(_GROUPS_SQL, {"rank": rank})


def loss_frame(trace: Trace, rank: int) -> pl.DataFrame:
    """Every loss that was read on a rank (step, loss), also of steps that have no row in ``steps``."""
    return trace.sql(_LOSSES_SQL, {"rank": rank})


def reduce_curves(steps: pl.DataFrame, losses: pl.DataFrame, groups: pl.DataFrame, around: int | None) -> list[Curve]:
    """The panels in reading order, without those never measured. ``around``: step of the first anomaly."""
    clipped = say("before clipping") if steps["clip_norm"].count() else ""
    curves = [
        curve_of("loss", say("Loss"), "", _one(losses, pl.col("loss")), around),
        curve_of("lr", say("Learning rate"), "", _learning_rates(groups), around),
        curve_of(
            "grad_norm", say("Gradient norm"), clipped, _one(steps, pl.coalesce("clip_norm", "grad_norm")), around
        ),
        curve_of("update_ratio", say("Update ratio"), "‖ΔW‖ / ‖W‖", _one(steps, pl.col("update_ratio")), around),
        curve_of("step_time", say("Step time"), "ms", _one(steps, pl.col("step_ns") / 1e6), around),
    ]
    return [c for c in curves if c.points.height or c.marks.height]


def thin(frame: pl.DataFrame, around: int | None, budget: int = POINTS) -> pl.DataFrame:
    """About ``budget`` rows of (step, value, line) per line at most; extremes and the neighbourhood stay."""
    if not is_long(frame, budget):
        return frame
    _, high = _bounds(frame)
    index = _bucket(frame, budget)
    keep = pl.lit(value=False)
    if around is not None:
        keep = (pl.col("step") - around).abs() <= NEIGHBOURHOOD
    bucket = ["line", index]
    kept = frame.with_columns(index.alias("bucket")).filter(
        (pl.col("value").arg_min() == pl.int_range(pl.len())).over(bucket)
        | (pl.col("value").arg_max() == pl.int_range(pl.len())).over(bucket)
        | (pl.int_range(pl.len()) == 0).over(bucket)
        | keep
        | (pl.col("step") == high)
    )
    return kept.drop("bucket")


def is_long(frame: pl.DataFrame, budget: int = POINTS) -> bool:
    """Whether a curve has more than ``budget`` points per line, so that some must go."""
    return frame.height > budget * max(1, frame["line"].n_unique() if frame.height else 1)


def trend_of(frame: pl.DataFrame, budget: int = POINTS) -> pl.DataFrame:
    """Median of every bucket at its middle step, in the columns of ``frame``: the course of a curve too long to be read."""
    return (
        frame.group_by("line", _bucket(frame, budget).alias("bucket"), maintain_order=True)
        .agg(pl.col("step").median().round().cast(pl.Int64), pl.col("value").median())
        .select(frame.columns)
    )


def _bucket(frame: pl.DataFrame, budget: int) -> pl.Expr:
    low, high = _bounds(frame)
    width = max(1.0, (high - low + 1) / (budget // 3))
    return ((pl.col("step") - low) / width).floor().cast(pl.Int64)


def nonfinite_marks(frame: pl.DataFrame, budget: int = POINTS // 3) -> pl.DataFrame:
    """Ranges of steps whose value is NaN or infinite: first, last, count, what. Neighbours are joined."""
    bad = frame.filter(~pl.col("value").is_finite()).with_columns(
        pl.when(pl.col("value").is_nan()).then(pl.lit("NaN")).otherwise(pl.lit("Inf")).alias("what")
    )
    marks = (
        bad.sort("step")
        .with_columns(
            ((pl.col("step").diff() > 1) | (pl.col("what") != pl.col("what").shift()))
            .fill_null(value=True)
            .cum_sum()
            .alias("run")
        )
        .group_by("run", maintain_order=True)
        .agg(
            pl.col("step").min().alias("first"),
            pl.col("step").max().alias("last"),
            pl.len().alias("count"),
            pl.col("what").first(),
        )
        .drop("run")
    )
    if marks.height <= budget:
        return marks
    low, high = int(marks["first"].min()), int(marks["last"].max())  # pyright: ignore[reportArgumentType]  # not empty, so not null
    width = max(1.0, (high - low + 1) / budget)
    return (
        marks.group_by(((pl.col("first") - low) / width).floor().alias("bucket"), maintain_order=True)
        .agg(pl.col("first").min(), pl.col("last").max(), pl.col("count").sum(), pl.col("what").mode().first())
        .drop("bucket")
    )


def curve_of(name: str, title: str, unit: str, frame: pl.DataFrame, around: int | None) -> Curve:
    """A panel from columns step, value and line, reduced to what can be drawn."""
    marks = nonfinite_marks(frame)
    every = frame.filter(pl.col("value").is_finite())
    finite = thin(every, around)
    trend = trend_of(every) if is_long(every) else every.clear()
    log = False
    if finite.height:
        least, most = float(finite["value"].min()), float(finite["value"].max())  # pyright: ignore[reportArgumentType]  # not empty
        log = least > 0 and most / least >= LOG_RATIO
    breaks = marks.select(pl.col("first").alias("step"), pl.lit(None, pl.Float64).alias("value"))
    lines = finite["line"].unique().to_list() if finite.height else []
    broken = [breaks.with_columns(pl.lit(line).alias("line")) for line in lines]
    points = pl.concat([finite, *(b.select(finite.columns) for b in broken)]).sort("line", "step")
    rounded = _rounded(pl.col("value"))
    return Curve(name, title, unit, points.with_columns(rounded), trend.with_columns(rounded), marks, log)


def _rounded(value: pl.Expr) -> pl.Expr:
    return value.round_sig_figs(6)  # a curve shows three digits; six keep the page small and tooltips honest


def _one(steps: pl.DataFrame, value: pl.Expr) -> pl.DataFrame:
    return steps.select(pl.col("step"), value.cast(pl.Float64).alias("value"), pl.lit("").alias("line")).drop_nulls(
        "value"
    )


def _learning_rates(groups: pl.DataFrame) -> pl.DataFrame:
    """lr per parameter group; groups that share their whole schedule become one line."""
    frame = groups.select(
        "step",
        pl.col("lr").alias("value"),
        pl.format(
            say("optimizer {optimizer}, group {group}", optimizer="{}", group="{}"),
            pl.col("optimizer_id").fill_null(0),
            "group_id",
        ).alias("line"),
    ).drop_nulls("value")
    if not frame.height:
        return frame
    spread = frame.group_by("step").agg((pl.col("value").max() - pl.col("value").min()).alias("spread"))["spread"].max()
    if isinstance(spread, float) and not math.isnan(spread) and spread > 0:
        return frame
    return frame.group_by("step").agg(pl.col("value").max()).with_columns(pl.lit("").alias("line")).sort("step")


def _bounds(frame: pl.DataFrame) -> tuple[int, int]:
    return int(frame["step"].min()), int(frame["step"].max())  # pyright: ignore[reportArgumentType]  # callers pass rows
