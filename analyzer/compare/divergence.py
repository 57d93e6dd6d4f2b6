"""Where two runs part: the first tensor, setting or batch that differs, to the last bit and beyond rounding and scatter.

What is recorded of a tensor are its moments. Two tensors count as equal when every moment that both runs have is equal to
the last bit; a difference that leaves all of them as they are cannot be seen.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from ..reading.trace import Trace

WINDOW = 10
"""Rows before a step over whose range a moment of a tensor is said to scatter."""

ROWS_AT_ONCE = 300_000
"""Rows of tensor_stats of one run that are held in memory at a time, with all that is computed from them some 300 MB."""

AT_FIRST = 100
"""Most tensors that are listed of the first step in which any differs."""

EPS = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
"""Distance from 1 to the next number, by dtype (IEEE 754; bfloat16 has 8 bits of significand)."""

_ROUNDING_OF_SUMS = 64
"""Multiples of eps, on the scale of the largest tensor of its kind, that are rounding even where a tensor is next to zero:
a gradient that is zero in exact arithmetic consists of them."""

CAPTURED, TOTALS, SETTINGS, STEPPED = range(4)
"""Order inside a step: what was captured up to the backward pass, the totals of the step, the settings of the optimizer,
what its step made."""

_KEY = ["rank", "model_no", "kind", "tensor", "phase", "microbatch", "nth"]
_TIME = ["step", "stage", "seq", "rank"]
_MOMENTS = ("sum", "sum_sq", "min", "max")
_EXACT = ("numel", "nan_count", "inf_count", "missing")

_MODELS = """
SELECT rank, model, dense_rank() OVER (PARTITION BY rank ORDER BY min(module_id)) AS model_no
FROM modules GROUP BY rank, model
"""

_SCALE = """
SELECT s.rank, s.step, t.kind, max(sqrt(s.sum_sq / greatest(s.numel - s.nan_count - s.inf_count, 1))) AS largest
FROM tensor_stats s JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id
WHERE s.step BETWEEN $first AND $last AND s.sum_sq IS NOT NULL GROUP BY ALL
"""

_COUNTS = "SELECT rank, tensor_id, count(*) AS n, min(step) AS first FROM tensor_stats GROUP BY ALL"

_NAMES = f"""
SELECT t.kind || ' ' || t.tensor_name AS name, sum(c.n)::BIGINT AS n, min(c.first) AS first
FROM ({_COUNTS}) c JOIN tensors t ON t.rank = c.rank AND t.tensor_id = c.tensor_id
GROUP BY name ORDER BY min(t.tensor_id), name
"""  # noqa: S608 # our own text

_ROWS = f"""
WITH models AS ({_MODELS})
SELECT s.rank, s.step, coalesce(s.microbatch, 0) AS microbatch, s.phase, s.seq, coalesce(o.model_no, 0) AS model_no,
    t.kind, t.tensor_name AS tensor, t.dtype, m.module,
    row_number() OVER (
        PARTITION BY s.rank, s.step, s.microbatch, s.phase, o.model_no, t.kind, t.tensor_name ORDER BY s.seq) AS nth,
    s.numel, s.nan_count, s.inf_count, coalesce(s.missing, false) AS missing, s.sum, s.sum_sq, s.min, s.max
FROM tensor_stats s
JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id
LEFT JOIN modules m ON m.rank = t.rank AND m.module_id = t.module_id
LEFT JOIN models o ON o.rank = m.rank AND o.model = m.model
WHERE s.step BETWEEN $first AND $last AND (t.kind || ' ' || t.tensor_name) IN (SELECT unnest($names))
"""  # noqa: S608 # our own text

_TOTALS = """
SELECT rank, step, name, avg(value) AS value FROM (
    UNPIVOT (SELECT rank, step, loss AS "loss", coalesce(clip_norm, grad_norm) AS "gradient norm" FROM steps
             WHERE step BETWEEN $first AND $last) ON "loss", "gradient norm" INTO NAME name VALUE value)
GROUP BY rank, step, name
"""


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first difference of two runs. ``what`` is tensor, total (loss or gradient norm of a step), setting or batch.

    ``step_lower``: first step at which it can have begun; before ``step`` only where recording was sampled.
    ``difference`` is relative to the size of the tensor; ``tolerance`` in the same unit, None where equality is asked.
    """

    step: int
    step_lower: int
    what: str
    kind: str
    name: str
    module: str | None
    phase: str
    rank: int
    microbatch: int | None
    measure: str
    a: Any
    b: Any
    difference: float | None = None
    tolerance: float | None = None
    order: tuple[int, int, int] = field(default=(0, 0, 0), repr=False)

    @property
    def place(self) -> tuple[int, tuple[int, int, int], int]:
        """Sorts divergences by time."""
        return self.step, self.order, self.rank


@dataclass(slots=True)
class Differences:
    """What comparing all tensors showed. ``by_step``: columns step, compared, unequal, beyond (tensors) and difference (the
    largest relative one). ``at_first``: the tensors that differ in the first step in which any does, in order of capture.
    ``only_a`` and ``only_b``: tensors that the other run never measured, with the first step that has them.
    """

    exact: Divergence | None
    beyond: Divergence | None
    by_step: pl.DataFrame
    at_first: list[Divergence]
    compared: int
    only_a: list[tuple[str, int]]
    only_b: list[tuple[str, int]]
    rounding: float


def compare_tensors(a: Trace, b: Trace, first: int, last: int) -> Differences:
    """Compare every tensor and the totals of every step in the steps ``first`` to ``last`` that both runs have.

    Raises QueryError where a part cannot be read to its end.
    """
    eps = max(coarsest_eps(a), coarsest_eps(b))
    rounding = eps**0.5  # half of the digits: what remains of them after sums and products, cf. isapprox of Julia
    names_a, names_b = _names(a), _names(b)
    shared = {n: max(c, names_b[n][0]) for n, (c, _) in names_a.items() if n in names_b}
    scale = _scale(a, b, first, last)
    unequal: list[pl.DataFrame] = []
    counts: list[pl.DataFrame] = []
    span = {"first": first, "last": last}
    for chunk in _chunks(shared):
        rows = [_tensor_rows(t, chunk, first, last) for t in (a, b)]
        found, counted = _unequal(rows[0], rows[1], scale, eps, rounding)
        unequal.append(_earliest(found))
        counts.append(counted)
    found, counted = _unequal(_total_rows(a, span), _total_rows(b, span), scale, eps, rounding)
    unequal.append(_earliest(found))
    counts.append(counted)
    every = pl.concat(unequal, how="vertical_relaxed").sort(_TIME)
    by_step = (
        pl.concat(counts)
        .group_by("step")
        .agg(pl.col("compared", "unequal", "beyond").sum(), pl.col("difference").max())
        .sort("step")
    )
    exact = [_divergence(r) for r in every.head(1).iter_rows(named=True)]
    beyond = [_divergence(r) for r in every.filter("beyond").head(1).iter_rows(named=True)]
    first_rows = every.filter(pl.col("step") == pl.col("step").min()).head(AT_FIRST)
    return Differences(
        exact=exact[0] if exact else None,
        beyond=beyond[0] if beyond else None,
        by_step=by_step,
        at_first=[_divergence(r) for r in first_rows.iter_rows(named=True)],
        compared=int(by_step["compared"].sum()),
        only_a=_only(names_a, names_b),
        only_b=_only(names_b, names_a),
        rounding=rounding,
    )


def _earliest(unequal: pl.DataFrame) -> pl.DataFrame:
    """Of rows that differ those that can be the first: of the first step, and the first beyond tolerance."""
    ordered = unequal.sort(_TIME)
    first = ordered.filter(pl.col("step") == pl.col("step").min()).head(AT_FIRST)
    beyond = ordered.filter("beyond").head(1)
    return pl.concat([first, beyond.join(first, on=[*_KEY, "step"], how="anti")])


def _scale(a: Trace, b: Trace, first: int, last: int) -> pl.DataFrame:
    """Root mean square of the largest tensor of each kind in each step, in either run."""
    both = pl.concat(t.sql(_SCALE, {"first": first, "last": last}) for t in (a, b))
    return both.group_by("rank", "step", "kind").agg(pl.col("largest").max())


def coarsest_eps(trace: Trace) -> float:
    """eps of the coarsest floating dtype of a run, autocast included; of float32 where none was recorded."""
    frame = trace.sql(
        "SELECT DISTINCT dtype FROM tensors WHERE kind <> 'input' UNION SELECT DISTINCT autocast FROM steps"
    )
    found = [EPS.get(str(d), 0.125 if "float8" in str(d) else 0.0) for d in frame["dtype"].to_list()]
    return max(found, default=0.0) or EPS["float32"]


def _names(trace: Trace) -> dict[str, tuple[int, int]]:
    """Kind and name of every tensor that was measured → how often, and the first step."""
    frame = trace.sql(_NAMES)
    return {name: (count, first) for name, count, first in frame.iter_rows()}


def _only(own: dict[str, tuple[int, int]], other: dict[str, tuple[int, int]]) -> list[tuple[str, int]]:
    """Tensors of one run that the other does not have, the earliest first."""
    return sorted(((n, first) for n, (_, first) in own.items() if n not in other), key=lambda t: (t[1], t[0]))


def _chunks(names: dict[str, int]) -> Iterator[list[str]]:
    chunk: list[str] = []
    rows = 0
    for name, count in names.items():  # in the order of their numbers, by which the parts are sorted
        if chunk and rows + count > ROWS_AT_ONCE:
            yield chunk
            chunk, rows = [], 0
        chunk.append(name)
        rows += count
    if chunk:
        yield chunk


def _tensor_rows(trace: Trace, names: list[str], first: int, last: int) -> pl.DataFrame:
    rows = trace.sql(_ROWS, {"names": names, "first": first, "last": last})
    return rows.with_columns(
        pl.lit("tensor").alias("what"),
        pl.when(pl.col("phase") == "optimizer").then(STEPPED).otherwise(CAPTURED).alias("stage"),
    )


def _total_rows(trace: Trace, span: dict[str, int]) -> pl.DataFrame:
    """Loss and gradient norm of every step in the columns of tensor rows: measured even where recording was sampled."""
    rows = trace.sql(_TOTALS, span)
    value = pl.col("value")
    return rows.select(
        "rank",
        "step",
        pl.lit(0, pl.Int32).alias("microbatch"),
        pl.lit("backward").alias("phase"),
        pl.when(pl.col("name") == "loss").then(0).otherwise(1).cast(pl.Int32).alias("seq"),
        pl.lit(0, pl.Int64).alias("model_no"),
        pl.col("name").alias("kind"),
        (pl.col("name") + pl.lit(" of the step")).alias("tensor"),
        pl.lit(None, pl.String).alias("dtype"),
        pl.lit(None, pl.String).alias("module"),
        pl.lit(1, pl.Int64).alias("nth"),
        pl.lit(1, pl.Int64).alias("numel"),
        value.is_nan().cast(pl.Int64).alias("nan_count"),
        value.is_infinite().cast(pl.Int64).alias("inf_count"),
        pl.lit(value=False).alias("missing"),
        _finite(value).alias("sum"),
        _finite(value).pow(2).alias("sum_sq"),
        _finite(value).alias("min"),
        _finite(value).alias("max"),
        pl.lit("total").alias("what"),
        pl.lit(TOTALS, pl.Int32).alias("stage"),
    )


def _finite(value: pl.Expr) -> pl.Expr:
    return pl.when(value.is_finite()).then(value)


def _unequal(
    a: pl.DataFrame, b: pl.DataFrame, scale: pl.DataFrame, eps: float, rounding: float
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rows in which two runs differ, and per step how many were compared, differ, and differ beyond tolerance."""
    carried = [*_KEY, "step", *_EXACT, *_MOMENTS, "mean", "rms", "mean_range", "rms_range"]
    left, right = _with_scatter(a), _with_scatter(b)
    both = left.join(right.select(carried), on=[*_KEY, "step"], how="inner", suffix="_b")
    both = both.join(scale, on=["rank", "step", "kind"], how="left")
    # a moment that only one run has was not measured in the other
    apart = pl.any_horizontal(
        *(pl.col(c) != pl.col(f"{c}_b") for c in _EXACT),
        *((pl.col(c) != pl.col(f"{c}_b")).fill_null(value=False) for c in _MOMENTS),
    )
    size = pl.max_horizontal("rms", "rms_b")
    floor = rounding * size + _ROUNDING_OF_SUMS * eps * pl.col("largest").fill_null(0.0)
    # what comes from the loader is no result of the training: the batches before say nothing about this one
    free = pl.col("kind").is_in(["input", "target"]) & (pl.col("phase") == "data")
    limits = {
        m: floor + pl.when(free).then(0.0).otherwise(pl.max_horizontal(f"{m}_range", f"{m}_range_b")) for m in _MEASURES
    }
    gaps = {m: (pl.col(m) - pl.col(f"{m}_b")).abs() for m in _MEASURES}
    other = pl.any_horizontal(*(pl.col(c) != pl.col(f"{c}_b") for c in _EXACT))
    beyond = pl.any_horizontal(other, *((gaps[m] > limits[m]).fill_null(value=False) for m in _MEASURES))
    relative = {m: (gaps[m] / pl.when(size > 0).then(size)).fill_null(0.0) for m in _MEASURES}
    judged = both.with_columns(
        apart.alias("unequal"),
        (apart & beyond).alias("beyond"),
        pl.max_horizontal(*relative.values()).alias("difference"),
        *(gaps[m].alias(f"{m}_gap") for m in _MEASURES),
        *((limits[m] / pl.when(size > 0).then(size)).alias(f"{m}_limit") for m in _MEASURES),
    ).with_columns(
        # the last step before this one in which the same tensor was compared; sampled recordings leave steps out
        pl.col("step").shift(1).over(_KEY, order_by="step").alias("step_before")
    )
    counts = judged.group_by("step").agg(
        pl.len().cast(pl.Int64).alias("compared"),
        pl.col("unequal", "beyond").sum().cast(pl.Int64),
        pl.col("difference").max(),
    )
    return judged.filter("unequal"), counts


_MEASURES = ("mean", "rms")


def _with_scatter(rows: pl.DataFrame) -> pl.DataFrame:
    """mean and rms of every row, and the range that each had in the WINDOW rows of the same tensor before it."""
    finite = pl.col("numel") - pl.col("nan_count") - pl.col("inf_count")
    count = pl.when(finite > 0).then(finite)
    rows = rows.with_columns(
        (pl.col("sum") / count).alias("mean"), (pl.col("sum_sq") / count).clip(0).sqrt().alias("rms")
    ).sort(*_KEY, "step")
    ranges = [
        (pl.col(m).rolling_max(WINDOW, min_samples=1).shift(1) - pl.col(m).rolling_min(WINDOW, min_samples=1).shift(1))
        .over(_KEY)
        .fill_null(0.0)
        .alias(f"{m}_range")
        for m in _MEASURES
    ]
    return rows.with_columns(ranges)


def _divergence(row: dict[str, Any]) -> Divergence:
    measure, a, b = _measure(row)
    known = measure in _MEASURES and row["what"] == "tensor"
    return Divergence(
        step=row["step"],
        step_lower=row["step"] if row["step_before"] is None else row["step_before"] + 1,
        what=row["what"],
        kind=row["kind"],
        name=row["tensor"],
        module=row["module"],
        phase=row["phase"],
        rank=row["rank"],
        microbatch=row["microbatch"] if row["what"] == "tensor" else None,
        measure=measure,
        a=a,
        b=b,
        difference=row["difference"] if measure in {*_MEASURES, "value", "min", "max"} else None,
        tolerance=row[f"{measure}_limit"] if known else row["rms_limit"] if measure == "value" else None,
        order=(row["stage"], row["seq"], row["nth"]),
    )


def _measure(row: dict[str, Any]) -> tuple[str, Any, Any]:
    """The plainest number in which two rows differ, and its values."""
    for name in _EXACT:
        if row[name] != row[f"{name}_b"]:
            return name, row[name], row[f"{name}_b"]
    if row["what"] == "total":
        return "value", row["sum"], row["sum_b"]
    apart = [m for m in _MEASURES if row[m] is not None and row[f"{m}_b"] is not None and row[m] != row[f"{m}_b"]]
    for name in sorted(apart, key=lambda m: row[f"{m}_gap"], reverse=True)[:1] or ["min", "max", "sum", "sum_sq"]:
        if row[name] is not None and row[f"{name}_b"] is not None and row[name] != row[f"{name}_b"]:
            return name, row[name], row[f"{name}_b"]
    return "sum", row["sum"], row["sum_b"]
