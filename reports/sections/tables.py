"""Reduce the tables of the page: the ten steps before, the modules, the facts of the run, what the recorder cost."""

import os
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import polars as pl

from ...analyzer import Trace
from ..text.grid import Grid
from ..text.language import say
from ..text.wording import NOT_MEASURED, duration, moment, number, shape, show_name, size
from .module_heatmap import HeatMaps, Measure

STEPS_BEFORE, STEPS_AFTER = 10, 2
MAX_MODULES = 150

_MODULES_SQL = """
WITH bad AS (
  SELECT t.module_id, min(s.step) AS first_bad
  FROM tensor_stats s
  JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id
  WHERE s.rank = $rank AND s.nan_count + s.inf_count > 0
  GROUP BY t.module_id
), outputs AS (
  SELECT t.module_id, arg_min(t.shape, t.tensor_id) AS shape, arg_min(t.dtype, t.tensor_id) AS dtype
  FROM tensors t
  WHERE t.rank = $rank AND t.kind = 'activation' AND t.tensor_name LIKE '%:output%'
  GROUP BY t.module_id
)
SELECT m.model, m.module, m.class_name, m.call_order, m.own_numel, o.shape, o.dtype, b.first_bad
FROM modules m
LEFT JOIN outputs o ON o.module_id = m.module_id
LEFT JOIN bad b ON b.module_id = m.module_id
WHERE m.rank = $rank
ORDER BY m.call_order NULLS LAST, m.module_id
"""

_TENSORS_SQL = """
SELECT t.kind, count(*) AS tensors, sum(t.numel)::BIGINT AS numel,
       string_agg(DISTINCT t.dtype, ', ' ORDER BY t.dtype) AS dtypes,
       string_agg(DISTINCT t.device, ', ' ORDER BY t.device) AS devices
FROM tensors t
WHERE t.rank = $rank
GROUP BY t.kind
ORDER BY t.kind
"""

_COST_SQL = """
SELECT sum(recorder_ns)::BIGINT AS recorder_ns, sum(step_ns)::BIGINT AS step_ns,
       sum(journal_bytes)::BIGINT AS journal_bytes, count(journal_bytes) AS rows
FROM steps
WHERE recorder_ns IS NOT NULL AND step_ns IS NOT NULL
"""

_ASIDE_SQL = """
SELECT max(ns)::BIGINT FROM (SELECT sum(ns) AS ns FROM recorder_stats WHERE part IN ('start', 'end') GROUP BY rank)
"""

_RANKS_SQL = """
SELECT r.rank, r.pid, r.hostname, r.torch_version, r.devices, r.threads, r.seed
FROM ranks r
ORDER BY r.rank
LIMIT 64
"""


@dataclass(frozen=True, slots=True)
class RecorderCost:
    """What recording took: ``share`` of the step time (None if not measured), bytes appended a step, bytes on disk; beside the
    steps, time at the start and the end in nanoseconds, and processor time of the supervisor (None if not known)."""

    share: float | None
    recorder_ns_per_step: float | None
    journal_bytes_per_step: float | None
    folder_bytes: int
    aside_ns: float | None
    supervisor_ns: float | None


def reduce_steps_before(steps: pl.DataFrame, around: int | None) -> Grid | None:
    """The ten steps before the first anomaly, the step itself and two after; without one, the last ten."""
    if not steps.height:
        return None
    if around is None:
        chosen = steps.tail(STEPS_BEFORE)
    else:
        chosen = steps.filter(pl.col("step").is_between(around - STEPS_BEFORE, around + STEPS_AFTER))
    marked = (
        chosen["step"].to_list().index(around) if around is not None and around in chosen["step"].to_list() else None
    )
    columns = [
        "step",
        "loss",
        "lr",
        say("gradient norm"),
        say("update ratio"),
        say("step time"),
        say("data wait"),
        "notes",
    ]
    rows = [
        [
            str(r["step"]),
            number(r["loss"]),
            number(r["lr"]),
            number(r["clip_norm"] if r["clip_norm"] is not None else r["grad_norm"]),
            number(r["update_ratio"], digits=3),
            duration(r["step_ns"]),
            duration(r["data_wait_ns"]),
            ", ".join(_notes(r, at_fault=r["step"] == around)),
        ]
        for r in chosen.iter_rows(named=True)
    ]
    if around is not None and steps["step"].max() < around:  # pyright: ignore[reportOperatorIssue]  # rows, so a number
        marked = len(rows)
        rows.append([str(around), *[say(NOT_MEASURED)] * 6, say("the run ended in this step")])
    return Grid(columns, rows, [True] * 7 + [False], marked) if rows else None


def reduce_modules(trace: Trace, rank: int, heat: HeatMaps | None) -> tuple[Grid | None, int]:
    """Modules in forward order, each with its health: medians over the run of what the heat maps show, and the first step
    with a non-finite tensor; and how many were left out."""
    frame = trace.sql(_MODULES_SQL, {"rank": rank})
    if not frame.height:
        return None, 0
    shown = frame.head(MAX_MODULES)
    several = frame["model"].n_unique() > 1
    measures = [m for m in heat.measures if m.key in _HEALTH] if heat is not None else []
    places = {label: i for i, label in enumerate(heat.modules)} if heat is not None else {}
    health = [_HEALTH[m.key] for m in measures]
    columns = ["module", "class", say("own parameters"), "output", "dtype", *health, "first NaN or Inf"]
    rows: list[list[str]] = []
    for r in shown.iter_rows(named=True):
        name = (f"{show_name(r['model'], empty='model')}: " if several else "") + show_name(r["module"])
        place = places.get(name)
        rows.append(
            [
                name,
                show_name(r["class_name"], empty=""),
                number(r["own_numel"]),
                say("not called") if r["call_order"] is None else shape(r["shape"]),
                r["dtype"] or "",
                *("" if place is None else _middle(m, place) for m in measures),
                say("never") if r["first_bad"] is None else say("step {first_bad}", first_bad=r["first_bad"]),
            ]
        )
    numeric = [False, False, True, False, False, *([True] * len(measures)), False]
    return Grid(columns, rows, numeric), frame.height - shown.height


_HEALTH = {"gradient": "gradient norm", "update": "update ratio", "zeros": "zeros", "saturation": "saturation"}
"""Measures of the heat maps that the table of modules repeats, as medians over the run."""


def _middle(measure: Measure, place: int) -> str:
    values = [v for v in measure.values[place] if v is not None and v >= 0]
    if not values:
        return ""
    middle = median(values)
    return f"{middle:.0%}" if measure.key == "zeros" else number(middle, digits=3)


def reduce_tensors(trace: Trace, rank: int) -> Grid | None:
    """How many tensors of each kind were recorded."""
    frame = trace.sql(_TENSORS_SQL, {"rank": rank})
    rows = [
        [
            say(r["kind"].replace("_", " ")),
            number(r["tensors"]),
            number(r["numel"]),
            r["dtypes"] or "",
            r["devices"] or "",
        ]
        for r in frame.iter_rows(named=True)
    ]
    return (
        Grid(["kind", "tensors", "elements", "dtype", "device"], rows, [False, True, True, False, False])
        if rows
        else None
    )


def reduce_run_facts(trace: Trace) -> list[tuple[str, str]]:
    """What was started, where and when."""
    m = trace.manifest
    commit = m.git_commit and f"{m.git_commit[:12]}{' with uncommitted changes' if m.git_dirty else ''}"
    facts = [
        (say("Run"), show_name(m.run_id)),
        (say("Folder"), show_name(str(trace.path))),
        (say("Script"), show_name(m.script)),
        (say("Arguments"), show_name(" ".join(m.argv), empty=say("none"))),
        (say("Working directory"), show_name(m.cwd)),
        (say("Started"), moment(m.started_ns)),
        (say("Host"), show_name(m.hostname, empty=say("not told"))),
        (say("Platform"), show_name(m.platform, empty=say("not told"))),
        ("Python", show_name(m.python, empty="")),
        (say("Git commit"), commit or say("none found")),
        ("firstfault", m.firstfault_version),
    ]
    return facts + [(show_name(name), show_name(version)) for name, version in sorted(m.versions.items())]


def reduce_settings(values: dict[str, Any]) -> list[tuple[str, str]]:
    """A configuration as flat rows: nested keys joined by dots."""
    rows: list[tuple[str, str]] = []
    for key, value in values.items():
        if isinstance(value, dict) and value:
            rows += [(f"{show_name(str(key))}.{k}", v) for k, v in reduce_settings(value)]
        else:
            text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
            rows.append((show_name(str(key)), show_name(text, empty='""')))
    return rows


def reduce_ranks(trace: Trace) -> Grid | None:
    """The processes that recorded."""
    frame = trace.sql(_RANKS_SQL, {})
    columns = ["rank", "pid", "host", "torch", "devices", "threads", "seed"]
    rows = [["" if v is None else show_name(str(v), empty="") for v in row] for row in frame.iter_rows()]
    return Grid(columns, rows, [True, True, False, False, False, True, True]) if rows else None


def reduce_cost(trace: Trace) -> RecorderCost:
    """The recorder's own cost over all steps and ranks."""
    frame = trace.sql(_COST_SQL, {})
    aside = trace.sql(_ASIDE_SQL, {}).item()
    outside = trace.exit.cost if trace.exit is not None else None
    recorder_ns, step_ns, journal_bytes, rows = frame.row(0) if frame.height else (None, None, None, 0)
    return RecorderCost(
        share=recorder_ns / step_ns if step_ns else None,
        recorder_ns_per_step=recorder_ns / rows if recorder_ns is not None and rows else None,
        journal_bytes_per_step=journal_bytes / rows if journal_bytes is not None and rows else None,
        folder_bytes=_folder_bytes(Path(trace.path)),
        aside_ns=float(aside + outside.before_ns + outside.after_ns)
        if outside is not None and aside is not None
        else None,
        supervisor_ns=float(outside.processor_ns) if outside is not None else None,
    )


def cost_facts(cost: RecorderCost) -> list[tuple[str, str]]:
    """The recorder's cost in words."""
    return [
        (say("Share of step time"), say("not measured") if cost.share is None else f"{cost.share:.1%}"),
        (say("Time per step"), duration(cost.recorder_ns_per_step)),
        (say("Written per step"), size(cost.journal_bytes_per_step)),
        (say("Run folder"), size(cost.folder_bytes)),
        *([] if cost.aside_ns is None else [(say("Before and after the steps"), duration(cost.aside_ns))]),
        *(
            []
            if cost.supervisor_ns is None
            else [(say("Processor time of the supervisor"), duration(cost.supervisor_ns))]
        ),
    ]


def _folder_bytes(run: Path) -> int:
    total = 0
    for folder, _, files in os.walk(run):
        for name in files:
            try:
                total += (Path(folder) / name).lstat().st_size
            except FileNotFoundError:  # a run still being written turns journal segments into parts meanwhile
                continue
    return total


def _notes(row: dict[str, Any], *, at_fault: bool) -> list[str]:
    notes = [say("first anomaly")] if at_fault else []
    if row["completed"] is False:
        notes.append(say("not completed"))
    elif row["skipped_by_scaler"]:
        notes.append(say("skipped by the scaler"))
    elif row["stepped"] is False:
        notes.append(say("no optimizer step"))
    return notes
