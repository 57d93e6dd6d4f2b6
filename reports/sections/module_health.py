"""Reduce the health of modules round a step: one cell per module and step, relative to the module's own history.

A cell's size is the root mean square of the module's tensors of one kind; its state compares that with the median over
the steps before the first anomaly. Finite and usual is not news: only what leaves its own band gets a strong colour.
"""

from bisect import bisect_left
from dataclasses import dataclass

import polars as pl

from ...analyzer import Trace
from ..text.language import say
from ..text.wording import show_name

BEFORE, AFTER = 20, 7
"""Steps shown before and after the first anomaly."""

HISTORY = 60
"""Steps before the first anomaly from which a module's usual size is taken."""

MIN_HISTORY = 3
"""Fewer recorded steps than these are no history: the cell says only that it is finite."""

MAX_MODULES = 44
"""Rows of the map; more do not fit a page, the nearest to the fault are kept."""

LEAD = 6
"""Modules before the suspected one in the forward pass that are always shown."""

KINDS = {
    "activation": "Activations",
    "activation_gradient": "Activation gradients",
    "gradient": "Parameter gradients",
    "update": "Updates",
}
"""Kinds of tensors that the map can show, with their button."""

STATES = ("nonfinite", "x100", "x10", "x3", "usual", "d3", "d10", "d100", "zero", "finite", "missing")
"""States of a cell: NaN or Inf; so many times (x) or one so-manyth (d) of usual; all zero; no history; no gradient."""

_CELLS_SQL = """
SELECT t.kind, s.step, m.module_id, m.module, m.model, m.class_name, m.call_order, m.depth,
       sum(s.numel)::DOUBLE AS numel,
       sum(s.nan_count)::BIGINT AS nan_count,
       sum(s.inf_count)::BIGINT AS inf_count,
       sum(s.sum_sq) AS sum_sq,
       bool_and(coalesce(s.missing, false)) AS missing
FROM tensor_stats s
JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id
JOIN modules m ON m.rank = t.rank AND m.module_id = t.module_id
WHERE s.rank = $rank AND s.step BETWEEN $first AND $last
  AND t.kind IN ('activation', 'activation_gradient', 'gradient', 'update')
  AND t.tensor_name NOT LIKE '%:input%'
GROUP BY ALL
"""


_MEASURED_SQL = """
SELECT DISTINCT s.step FROM tensor_stats s
WHERE s.rank = $rank AND s.tensor_id IN (
    SELECT tensor_id FROM tensors WHERE rank = $rank AND kind IN ('activation', 'gradient') ORDER BY tensor_id LIMIT 32)
ORDER BY s.step
"""


@dataclass(frozen=True, slots=True)
class Window:
    """Steps to show: from ``first`` to ``last``; the history of the first bad one begins at ``history``."""

    history: int
    first: int
    last: int


def window_round(trace: Trace, rank: int, pivot: int, *, before: int, after: int) -> Window | None:
    """So many steps before the pivot and from it on, counting those in which modules were measured: of a sampled recording the
    window is wider. None where none was."""
    steps = trace.sql(_MEASURED_SQL, {"rank": rank})["step"].to_list()
    if not steps:
        return None
    at = bisect_left(steps, pivot)
    return Window(
        history=steps[max(0, min(at, len(steps) - 1) - HISTORY)],
        first=steps[max(0, min(at, len(steps) - 1) - before)],
        last=steps[min(len(steps) - 1, at + after)],
    )


@dataclass(frozen=True, slots=True)
class HealthMap:
    """Cells of one kind: columns module (label), step, state, rms, ratio; ``modules``: labels in forward order."""

    kind: str
    label: str
    modules: list[str]
    hidden: int
    first: int
    last: int
    marked_step: int | None
    marked_module: str | None
    cells: pl.DataFrame


def reduce_health(
    trace: Trace, rank: int, around: int | None, last_step: int | None, suspect: str | None
) -> list[HealthMap]:
    """One map per kind that was recorded. ``around``: first bad step, None without one; ``suspect``: module to mark."""
    if last_step is None:
        return []
    pivot = last_step + 1 if around is None else around
    window = window_round(trace, rank, pivot, before=BEFORE, after=AFTER)
    if window is None:
        return []
    first, last = window.first, window.last
    raw = trace.sql(_CELLS_SQL, {"rank": rank, "first": window.history, "last": last})
    if not raw.height:
        return []
    cells = _states(labelled(raw), pivot)
    maps: list[HealthMap] = []
    for kind, label in ((k, say(w)) for k, w in KINDS.items()):
        mine = cells.filter((pl.col("kind") == kind) & pl.col("step").is_between(first, last))
        if mine.height:
            maps.append(_map(kind, label, mine, around, suspect))
    return maps


def state(nonfinite: bool, missing: bool, rms: float | None, usual: float | None) -> str:
    """State of one cell. ``usual`` is the median rms of its history, None without enough of it."""
    if nonfinite:
        return "nonfinite"
    if missing:
        return "missing"
    if rms is None or usual is None:
        return "finite"
    if rms == 0:
        return "zero" if usual > 0 else "usual"
    ratio = rms / usual if usual > 0 else float("inf")
    for limit, name in ((100, "x100"), (10, "x10"), (3, "x3")):
        if ratio >= limit:
            return name
    for limit, name in ((100, "d100"), (10, "d10"), (3, "d3")):
        if ratio <= 1 / limit:
            return name
    return "usual"


def labelled(raw: pl.DataFrame) -> pl.DataFrame:
    """Add ``label``: the module's name, with its model where there are several, with its class for a root."""
    one_model = raw["model"].n_unique() <= 1
    owners = raw.select("module_id", "model", "module", "class_name").unique("module_id").sort("module_id")
    labels: dict[int, str] = {}
    taken: set[str] = set()
    for module_id, model, module, class_name in owners.iter_rows():
        label = show_name(module, empty=f"(root) {show_name(class_name, empty='')}".strip())
        if not one_model:
            label = f"{show_name(model, empty='model')}: {label}"
        label = label if label not in taken else f"{label} #{module_id}"
        taken.add(label)
        labels[module_id] = label
    names = pl.DataFrame(
        {"module_id": list(labels), "label": list(labels.values())}, schema_overrides={"module_id": pl.Int32}
    )
    return raw.join(names, on="module_id")


def _states(raw: pl.DataFrame, pivot: int) -> pl.DataFrame:
    rms = (pl.col("sum_sq") / (pl.col("numel") - pl.col("nan_count") - pl.col("inf_count"))).sqrt()
    cells = raw.with_columns(
        (pl.col("nan_count") + pl.col("inf_count") > 0).alias("nonfinite"),
        pl.when(pl.col("numel") > pl.col("nan_count") + pl.col("inf_count")).then(rms).alias("rms"),
    )
    history = cells.filter((pl.col("step") < pivot) & pl.col("rms").is_not_null())
    usual = history.group_by("kind", "module_id").agg(
        pl.when(pl.len() >= MIN_HISTORY).then(pl.col("rms").median()).alias("usual")
    )
    cells = cells.join(usual, on=["kind", "module_id"], how="left")
    states = [
        state(nonfinite, missing, value, usually)
        for nonfinite, missing, value, usually in cells.select("nonfinite", "missing", "rms", "usual").iter_rows()
    ]
    return cells.with_columns(
        pl.Series("state", states, dtype=pl.String), (pl.col("rms") / pl.col("usual")).alias("ratio")
    )


def _leads(column: str) -> pl.Expr:
    """Rows in forward order that lie up to LEAD before a marked one: what flowed into the fault."""
    return pl.any_horizontal(pl.col(column).shift(-n).fill_null(value=False) for n in range(1, LEAD + 1))


def _map(kind: str, label: str, cells: pl.DataFrame, around: int | None, suspect: str | None) -> HealthMap:
    order = pl.col("call_order").fill_null(2**31 - 1)
    rows = (
        cells.group_by("module_id", "label", "module", "depth", order.alias("order"))
        .agg(
            (pl.col("module").first() == (suspect if suspect is not None else "\0")).alias("suspect"),
            pl.col("step").filter(pl.col("nonfinite")).min().alias("broken"),
            pl.col("state").is_in(["usual", "finite"]).not_().sum().alias("unusual"),
        )
        .sort("order", "module_id")
        .with_columns(_leads("suspect").alias("lead"))
        .sort(
            "suspect",
            "lead",
            "broken",
            "unusual",
            "depth",
            "order",
            descending=[True, True, False, True, False, False],
            nulls_last=True,
        )
    )
    shown = rows.head(MAX_MODULES).sort("order", "module_id")
    marked = shown.filter("suspect")["label"].to_list()
    drawn = (
        cells.join(shown.select("module_id"), on="module_id", how="semi")
        .sort("step", "module_id")
        .select(
            pl.col("label").alias("module"),
            "step",
            "state",
            pl.col("rms").round_sig_figs(4),
            pl.col("ratio").round_sig_figs(3),
            "nan_count",
            "inf_count",
        )
    )
    steps = drawn["step"].to_list()
    return HealthMap(
        kind=kind,
        label=label,
        modules=shown["label"].to_list(),
        hidden=rows.height - shown.height,
        first=min(steps),
        last=max(steps),
        marked_step=around,
        marked_module=marked[0] if marked else None,
        cells=drawn,
    )
