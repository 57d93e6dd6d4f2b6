"""Optimizer and schedule: every group with its settings, and how rate, update and clipping went."""

import json
from typing import Any

import polars as pl

from ...analyzer import Trace
from ..charts.curves_and_health import curves_chart
from ..sections.curves import Curve, curve_of
from ..text.grid import Grid
from ..text.language import say
from ..text.wording import number, show_name
from .panel import Panel, curve_over, kept

MOST_GROUPS = 24

_GROUPS_SQL = """
SELECT optimizer_id, group_id, any_value(optimizer) AS optimizer, max(parameters) AS parameters, max(numel) AS numel,
       arg_min(lr, step) AS lr_first, min(lr) AS lr_least, max(lr) AS lr_most, arg_max(lr, step) AS lr_last,
       arg_max(weight_decay, step) AS weight_decay, arg_max(momentum, step) AS momentum, arg_max(beta2, step) AS beta2,
       arg_max(eps, step) AS eps, arg_max(settings, step) AS settings, count(DISTINCT step) AS steps
FROM param_groups WHERE rank = $rank GROUP BY optimizer_id, group_id ORDER BY optimizer_id, group_id
"""

_SCHEDULERS_SQL = """
SELECT scheduler_id, any_value(scheduler) AS scheduler, any_value(optimizer_id) AS optimizer_id, max(total_steps) AS calls,
       arg_max(lr, step) AS lr, arg_max(settings, step) AS settings
FROM schedulers WHERE rank = $rank GROUP BY scheduler_id ORDER BY scheduler_id
"""

_RATIOS_SQL = """
SELECT step, optimizer_id, group_id, update_norm / nullif(weight_norm, 0) AS value
FROM param_groups WHERE rank = $rank AND update_norm IS NOT NULL ORDER BY optimizer_id, group_id, step
"""

_STEPS_SQL = """
SELECT step, max(clip_norm / nullif(clip_max_norm, 0)) AS clipped, max(loss_scale) AS loss_scale
FROM steps WHERE rank = $rank GROUP BY step ORDER BY step
"""


def optimizer_panel(trace: Trace, rank: int, around: int | None, _suspect: str | None) -> Panel | None:
    """Groups, schedulers, and curves of updates and clipping; None where no optimizer was seen."""
    groups = trace.sql(_GROUPS_SQL, {"rank": rank})
    if not groups.height:
        return None
    steps = trace.sql(_STEPS_SQL, {"rank": rank})
    curves = [
        _ratios(trace, rank, around),
        curve_over(steps, "clipped", say("Gradient norm / clipping limit"), "", {"clipped": ""}, around),
        curve_over(steps, "loss_scale", say("Loss scale"), "", {"loss_scale": ""}, around),
    ]
    grids = [(say("Parameter groups"), _groups(groups))]
    schedulers = trace.sql(_SCHEDULERS_SQL, {"rank": rank})
    if schedulers.height:
        grids.append((say("Schedulers"), _schedulers(schedulers)))
    shown = kept(*curves)
    return Panel(
        "optimizer",
        say("Optimizer and schedule"),
        say(
            "Look for a rate that is not what you meant, a group without updates, and gradients clipped in every step (above 1)."
        ),
        [],
        grids,
        curves_chart(shown, around),
        say("Update ratio, clipping and loss scale over steps"),
    )


def _ratios(trace: Trace, rank: int, around: int | None) -> Curve | None:
    frame = trace.sql(_RATIOS_SQL, {"rank": rank})
    if not frame.height:
        return None
    several = frame.select("optimizer_id", "group_id").n_unique() > 1
    name = pl.format(
        say("optimizer {optimizer}, group {group}", optimizer="{}", group="{}"),
        pl.col("optimizer_id").fill_null(0),
        "group_id",
    )
    lines = frame.select("step", pl.col("value").cast(pl.Float64), (name if several else pl.lit("")).alias("line"))
    known = lines.drop_nulls("value")
    names = known["line"].unique().sort().to_list()[:MOST_GROUPS]
    return curve_of("ratio", say("Update ratio"), "‖ΔW‖ / ‖W‖", known.filter(pl.col("line").is_in(names)), around)


def _groups(groups: pl.DataFrame) -> Grid:
    rows = [
        [
            f"{show_name(r['optimizer'], empty='')} {r['optimizer_id']}",
            number(r["group_id"]),
            number(r["parameters"]),
            number(r["numel"]),
            _course(r),
            _known(r["weight_decay"]),
            _known(r["momentum"]),
            _known(r["beta2"]),
            _known(r["eps"]),
            _settings(r["settings"]),
        ]
        for r in groups.head(MOST_GROUPS).iter_rows(named=True)
    ]
    columns = [
        "optimizer",
        "group",
        "tensors",
        "elements",
        say("learning rate"),
        say("weight decay"),
        "momentum",
        "beta2",
        "eps",
        "other",
    ]
    return Grid(columns, rows, [False, True, True, True, False, True, True, True, True, False])


def _course(row: dict[str, Any]) -> str:
    """The rate over the run in words."""
    if row["lr_least"] == row["lr_most"]:
        return _known(row["lr_last"])
    words = f"{_known(row['lr_first'])} → {_known(row['lr_last'])}"
    if row["lr_most"] not in (row["lr_first"], row["lr_last"]):
        words += say(", at most {lr_most}", lr_most=_known(row["lr_most"]))
    return words


def _schedulers(frame: pl.DataFrame) -> Grid:
    rows = [
        [
            show_name(r["scheduler"], empty=""),
            number(r["optimizer_id"]),
            number(r["calls"]),
            _known(r["lr"]),
            _settings(r["settings"]),
        ]
        for r in frame.iter_rows(named=True)
    ]
    return Grid(
        ["scheduler", "optimizer", say("step() calls"), say("last rate"), "settings"],
        rows,
        [False, True, True, True, False],
    )


def _settings(text: str | None) -> str:
    """A JSON object of settings as `name value` pairs, without those that are off."""
    try:
        held = json.loads(text or "{}")
    except json.JSONDecodeError:
        return show_name(text, empty="")
    return show_name(", ".join(f"{k} {v}" for k, v in held.items() if v not in (None, False, "")), empty="")


def _known(value: float | None) -> str:
    return "" if value is None else number(value)
