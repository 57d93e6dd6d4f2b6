"""Reduce the steps round the first anomaly to a replay: the state of every station of the data flow at every step.

Stations are what the forward pass goes through, in order of capture: the batch, what enters and leaves modules, the loss.
Each has up to five lanes: forward, backward, gradient, update and weights. A cell says how its tensors stand at that step.
"""

import math
from dataclasses import dataclass
from typing import Any

import polars as pl

from ...analyzer import Trace
from ..text.language import say
from ..text.wording import number, plural, show_name
from .module_health import AFTER, BEFORE, MIN_HISTORY, labelled, state, window_round

MAX_STATIONS = 60
"""Rows of the replay; the nearest to the fault are kept."""

LEAD = 8
"""Stations before the suspected one that are always kept."""

APART = 1000.0
"""So many times below (above) the upper quartile of its lane in the same step is faint (loud): needs no history, and is more
than layers of one healthy model usually lie apart. The quartile, so that gradients that vanish are faint where they have
vanished, not loud where they have not."""

PEERS = 4
"""Fewer stations in a lane than these have no quartile that would mean anything."""

SPARSE = 0.95
"""Share of exact zeros from which the output of a module counts as almost all zero."""

SATURATED = 0.96
"""Mean square of a tanh, or of a sigmoid scaled to [-1, 1], from which most units lie at their bounds (rule MO010)."""

LANES = {
    "forward": "Forward ↓",
    "backward": "Backward ↑",
    "gradient": "Gradient",
    "update": "Update",
    "weight": "Weights",
}

STATES = (
    "usual", "nonfinite", "x100", "x10", "x3", "d3", "d10", "d100", "zero", "missing",
    "finite", "sparse", "saturated", "faint", "loud",
)  # fmt: skip
"""States of a cell by number: those of the health map, then those that need no history."""

STATE_WORDS = {
    "usual": "usual",
    "finite": "finite",
    "nonfinite": "NaN or Inf",
    "x100": "≥ 100 × usual",
    "x10": "≥ 10 × usual",
    "x3": "≥ 3 × usual",
    "d3": "≤ 1/3 of usual",
    "d10": "≤ 1/10 of usual",
    "d100": "≤ 1/100 of usual",
    "zero": "all zero",
    "missing": "no gradient",
    "sparse": "almost all zero",
    "saturated": "saturated",
    "faint": "≤ 1/1000 of its peers",
    "loud": "≥ 1000 × its peers",
}

QUIET = ("usual", "finite", "x3", "d3")
"""States that a healthy step is full of."""

_ROWS_SQL = """
SELECT s.step,
       CASE t.kind WHEN 'activation_gradient' THEN 'backward' WHEN 'gradient' THEN 'gradient' WHEN 'update' THEN 'update'
                   WHEN 'parameter' THEN 'weight' ELSE 'forward' END AS lane,
       CASE WHEN t.kind IN ('activation', 'activation_gradient') AND t.tensor_name LIKE '%:input%' THEN 'into'
            WHEN t.kind IN ('input', 'target', 'output', 'loss') THEN t.kind ELSE 'module' END AS role,
       CASE WHEN t.kind IN ('input', 'target', 'output', 'loss') THEN t.tensor_id END AS tensor_id,
       any_value(t.tensor_name) AS tensor_name,
       t.module_id, m.module, m.model, m.class_name, m.depth, m.call_order,
       min(s.seq) AS seq, sum(s.numel)::DOUBLE AS numel, sum(s.nan_count)::BIGINT AS nan_count,
       sum(s.inf_count)::BIGINT AS inf_count, sum(s.zero_count)::DOUBLE AS zeros, sum(s.sum_sq) AS sum_sq, sum(s.sum) AS total,
       min(s.min) AS low, max(s.max) AS high, bool_and(coalesce(s.missing, false)) AS missing
FROM tensor_stats s
JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id
LEFT JOIN modules m ON m.rank = t.rank AND m.module_id = t.module_id
WHERE s.rank = $rank AND s.step BETWEEN $first AND $last AND s.phase <> 'eval'
  AND t.kind IN ('activation', 'activation_gradient', 'gradient', 'update', 'parameter', 'input', 'target', 'output', 'loss')
GROUP BY s.step, lane, role, CASE WHEN t.kind IN ('input', 'target', 'output', 'loss') THEN t.tensor_id END,
         t.module_id, m.module, m.model, m.class_name, m.depth, m.call_order
"""


@dataclass(frozen=True, slots=True)
class Station:
    """One row of the replay: its name, class, depth in the model, and whether the first cause points at it."""

    label: str
    class_name: str
    depth: int
    suspect: bool


@dataclass(frozen=True, slots=True)
class Replay:
    """Cells by step, lane and station. ``cells`` has columns step, lane, station (row number), state, rms, ratio (to its own
    history), zeros and lost (shares), low, high, order (of capture in its step). ``said``: a sentence for each step."""

    steps: list[int]
    marked: int | None
    lanes: list[str]
    stations: list[Station]
    hidden: int
    cells: pl.DataFrame
    said: list[str]


def reduce_replay(
    trace: Trace, rank: int, around: int | None, last_step: int | None, suspect: str | None
) -> Replay | None:
    """The window of the health map, at least as many steps as that has; None where no tensor was measured in it."""
    if last_step is None:
        return None
    pivot = last_step + 1 if around is None else around
    window = window_round(trace, rank, pivot, before=BEFORE, after=AFTER + max(0, BEFORE - pivot))
    if window is None:
        return None
    first, last = window.first, window.last
    raw = trace.sql(_ROWS_SQL, {"rank": rank, "first": window.history, "last": last})
    if not raw.height or not (raw["step"] >= first).any():
        return None
    cells = _judged(_named(raw), pivot).filter(pl.col("step") >= first)
    rows = _stations(cells, suspect)
    shown = _chosen(rows)
    numbered = shown.with_row_index("station").select("key", pl.col("station").cast(pl.Int32))
    drawn = cells.join(numbered, on="key").sort("step", "order")
    steps = sorted(drawn["step"].unique().to_list())
    stations = [
        Station(label, show_name(class_name, empty=""), depth or 0, bool(marked))
        for label, class_name, depth, marked in shown.select("label", "class_name", "depth", "suspect").iter_rows()
    ]
    return Replay(
        steps=steps,
        marked=None if around is None else next((s for s in steps if s >= around), None),
        lanes=[lane for lane in LANES if lane in set(drawn["lane"])],
        stations=stations,
        hidden=rows.height - shown.height,
        cells=drawn.select("step", "lane", "station", "state", "rms", "ratio", "zeros", "lost", "low", "high", "order"),
        said=_sentences(cells, steps, around),
    )


def replay_json(replay: Replay) -> dict[str, Any]:
    """What the page's script is given: cells as lists [lane, station, state, rms, ratio, zeros, lost, order] by step."""
    lanes = {lane: i for i, lane in enumerate(replay.lanes)}
    states = {name: i for i, name in enumerate(STATES)}
    by_step: dict[int, list[list[Any]]] = {step: [] for step in replay.steps}
    for row in replay.cells.iter_rows(named=True):
        cell: list[Any] = [lanes[row["lane"]], row["station"], states[row["state"]]]
        cell += [_short(row[c]) for c in ("rms", "ratio", "zeros", "lost", "low", "high")]
        by_step[row["step"]].append(cell)
    return {
        "steps": replay.steps,
        "marked": replay.marked,
        "lanes": [say(LANES[lane]) for lane in replay.lanes],
        "stations": [[s.label, s.class_name, s.depth, int(s.suspect)] for s in replay.stations],
        "states": [[name, say(STATE_WORDS[name]), int(name not in QUIET)] for name in STATES],
        "said": replay.said,
        "cells": [by_step[step] for step in replay.steps],
    }


def _short(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(f"{value:.4g}")


def _named(raw: pl.DataFrame) -> pl.DataFrame:
    """Add ``key`` and ``label`` of the station of each row."""
    owners = labelled(raw.filter(pl.col("module_id").is_not_null())).select("module_id", "label").unique("module_id")
    names = raw.join(owners, on="module_id", how="left")
    labels = [
        _label(role, tensor, label) for role, tensor, label in names.select("role", "tensor_name", "label").iter_rows()
    ]
    return names.with_columns(
        pl.Series("label", labels, dtype=pl.String),
        pl.format("{} {} {}", "role", pl.col("module_id").fill_null(-1), pl.col("tensor_id").fill_null(-1)).alias(
            "key"
        ),
    )


def _label(role: str, tensor: str, owner: str | None) -> str:
    if role == "module":
        return owner or show_name(tensor)
    if role == "into":
        return say("→ into {owner}", owner=owner)
    if role == "loss":
        return "loss"
    if role == "output":
        return say("→ into the loss")
    field = show_name(tensor.split(":", 1)[-1])
    return say("batch {field}", field=field) if owner is None else say("{field} of {owner}", field=field, owner=owner)


def _judged(rows: pl.DataFrame, pivot: int) -> pl.DataFrame:
    """Add rms, ratio, shares, order and state."""
    finite = pl.col("numel") - pl.col("nan_count") - pl.col("inf_count")
    cells = rows.with_columns(
        pl.when(finite > 0).then((pl.col("sum_sq") / finite).sqrt()).alias("rms"),
        (pl.col("nan_count") + pl.col("inf_count") > 0).alias("nonfinite"),
        ((pl.col("nan_count") + pl.col("inf_count")) / pl.col("numel")).alias("lost"),
        (pl.col("zeros") / pl.col("numel")).alias("zeros"),
        pl.when(pl.col("class_name") == "Tanh")
        .then(pl.col("sum_sq") / finite)
        .when(pl.col("class_name") == "Sigmoid")
        .then((4 * pl.col("sum_sq") - 4 * pl.col("total")) / finite + 1)
        .alias("bounds"),
        pl.col("seq").rank("ordinal").over("step").alias("order"),
    )
    history = cells.filter((pl.col("step") < pivot) & pl.col("rms").is_not_null())
    usual = history.group_by("key", "lane").agg(
        pl.when(pl.len() >= MIN_HISTORY).then(pl.col("rms").median()).alias("usual")
    )
    peers = (
        cells.filter((pl.col("rms") > 0) & (pl.col("role") == "module"))
        .group_by("step", "lane")
        .agg(pl.when(pl.len() >= PEERS).then(pl.col("rms").quantile(0.75)).alias("peers"))
    )
    cells = cells.join(usual, on=["key", "lane"], how="left").join(peers, on=["step", "lane"], how="left")
    columns = ("lane", "role", "nonfinite", "missing", "rms", "usual", "peers", "zeros", "bounds")
    states = [_state(*row) for row in cells.select(columns).iter_rows()]
    return cells.with_columns(
        pl.Series("state", states, dtype=pl.String),
        pl.when(pl.col("usual") > 0).then(pl.col("rms") / pl.col("usual")).alias("ratio"),
    )


def _state(
    lane: str,
    role: str,
    nonfinite: bool,
    missing: bool,
    rms: float | None,
    usual: float | None,
    peers: float | None,
    zeros: float | None,
    bounds: float | None,
) -> str:
    """State of one cell: against its own history first; what needs no history where that says nothing."""
    named = state(nonfinite, missing, rms, usual)
    if named not in ("usual", "finite") or role != "module" or rms is None:
        return named
    if lane == "forward" and zeros is not None and zeros >= SPARSE:
        return "zero" if zeros == 1 else "sparse"
    if lane == "forward" and bounds is not None and bounds >= SATURATED:
        return "saturated"
    if rms == 0 and lane in ("backward", "gradient", "update"):
        return "zero"
    if peers is not None and lane in ("forward", "backward", "gradient"):
        if rms * APART <= peers and rms > 0:
            return "faint"
        if rms >= peers * APART:
            return "loud"
    return named


def _stations(cells: pl.DataFrame, suspect: str | None) -> pl.DataFrame:
    """One row per station in data-flow order, with what decides whether it is shown."""
    late = 2**31 - 1
    rows = cells.group_by("key").agg(
        pl.col("label").first(),
        pl.col("class_name").first(),
        pl.col("depth").first(),
        pl.col("module_id").first(),
        ((pl.col("role").first() == "module") & (pl.col("module").first() == pl.lit(suspect)))
        .fill_null(value=False)
        .alias("suspect"),
        pl.col("seq").filter(pl.col("lane") == "forward").median().alias("flow"),
        pl.col("step").filter(~pl.col("state").is_in(QUIET)).min().fill_null(late).alias("since"),
    )
    # what has no forward of its own (used as a function, or only its weights) stands behind the module numbered before it
    return (
        rows.sort("module_id", "key", nulls_last=True)  # the key: the same page on every reading, whoever made it
        .with_columns(pl.col("flow").is_null().alias("silent"), pl.col("flow").forward_fill().fill_null(0))
        .sort("flow", "silent", "module_id", "key")
        .drop("silent")
    )


def _chosen(rows: pl.DataFrame) -> pl.DataFrame:
    """At most MAX_STATIONS of them: the suspect, what flows into it, then what changes first."""
    if rows.height <= MAX_STATIONS:
        return rows
    near = pl.any_horizontal(pl.col("suspect").shift(-n).fill_null(value=False) for n in range(LEAD + 1))
    return (
        rows.with_row_index("place")
        .with_columns(near.alias("near"))
        .sort("near", "since", "place", descending=[True, False, False])
        .head(MAX_STATIONS)
        .sort("place")
    )


def _sentences(cells: pl.DataFrame, steps: list[int], around: int | None) -> list[str]:
    """For each step what left its usual size first, and how much of the model with it."""
    said: list[str] = []
    parts = cells.partition_by("step", as_dict=True)
    calm = True
    for step in steps:
        rows = parts[step,].sort("order")
        changed = rows.filter(~pl.col("state").is_in(QUIET))
        total = rows["key"].n_unique()
        mark = say(", the first anomaly") if step == around else ""
        if not changed.height:
            said.append(
                say(
                    "Step {step}{mark}: all {stations} as usual.",
                    step=step,
                    mark=mark,
                    stations=plural(total, "station"),
                )
            )
        else:
            first = changed.row(0, named=True)
            lane = "" if first["lane"] == "forward" else f", {say(first['lane'])}"
            name = f"{first['label']}{lane} ({say(STATE_WORDS[first['state']])})"
            count = changed["key"].n_unique()
            if calm:
                more = (
                    say(", then {count} of {others}", count=number(count - 1), others=plural(total - 1, "other"))
                    if count > 1
                    else ""
                )
                said.append(say("Step {step}{mark}: first {name}{more}.", step=step, mark=mark, name=name, more=more))
            else:
                said.append(
                    say(
                        "Step {step}{mark}: {count} of {stations} not as usual, first {name}.",
                        step=step,
                        mark=mark,
                        count=number(count),
                        stations=plural(total, "station"),
                        name=name,
                    )
                )
        calm = not changed.height
    return said
