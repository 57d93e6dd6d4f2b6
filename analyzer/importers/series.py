"""Named curves into steps, param_groups and metrics: which of them is the loss of the training, its rate, its gradient norm.

A curve becomes a column of `steps` only where its name leaves no doubt; all others, and everything about evaluation, are
metrics. Step numbers stay as the file has them.
"""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from .target import RunTarget


class Point(NamedTuple):
    """One value of a curve; ``time_ns`` is null where nobody wrote it down."""

    step: int
    value: float
    time_ns: int | None = None


Curves = Mapping[str, Sequence[Point]]

_LOSS = (
    *(
        "loss",
        "trainloss",
        "trainingloss",
        "losstrain",
        "lossestrain",
        "lossesloss",
        "traintotalloss",
        "totalloss",
        "losstotal",
    ),
    *("lossstep", "trainlossstep", "trainbatchloss", "batchloss", "trainingstepstrainingloss"),
    *("lossepoch", "trainlossepoch", "trainepochloss", "epochloss"),
)
_LR = ("lr", "learningrate", "trainlr", "trainlearningrate", "optimizerlr", "optimlr", "lrgroup0", "lr0", "traininglr")
_NORM = (
    *(
        "gradnorm",
        "traingradnorm",
        "gradientnorm",
        "gnorm",
        "traingnorm",
        "globalgradnorm",
        "totalgradnorm",
        "traingradientnorm",
    ),
    *("globalgradientnorm", "gradnormtotal", "traingloballgradnorm", "gradnormglobal", "gradtotalnorm", "totalnorm"),
)
_SCALE = ("lossscale", "trainlossscale", "gradscale", "gradscalerscale")
_LIGHTNING_LR = re.compile(r"^lr-[A-Za-z0-9]+$")
_OTHER = re.compile(r"(^|[^a-z])(val|valid|validation|eval|evaluation|test|dev|holdout)([^a-z]|$)")

_TRAILING = 3
"""Rows at the end that must all lack a finite gradient norm before it is no step that a loss scaler has skipped."""


def put_curves(target: RunTarget, source: Path, rank: int, curves: Curves, kind: str) -> str:
    """Add the curves of one rank to the target. Returns what they were taken for, in a few words."""
    given = {name: points for name, points in curves.items() if points}
    chosen = {"loss": _first(given, _LOSS), "lr": _first(given, _LR), "grad_norm": _first(given, _NORM)}
    chosen["loss_scale"] = _first(given, _SCALE)
    if chosen["lr"] is None:
        chosen["lr"] = next((name for name in given if _LIGHTNING_LR.fullmatch(name)), None)
    taken = {column: name for column, name in chosen.items() if name is not None}
    values = {
        column: {p.step: p for p in given[name]} for column, name in taken.items()
    }  # a later point replaces an earlier
    steps = sorted(values.get("loss") or values.get("grad_norm") or values.get("lr") or ())
    for step in steps:
        found = {c: by_step[step] for c, by_step in values.items() if step in by_step}
        columns = {c: p.value for c, p in found.items() if c != "lr"}
        if (
            "grad_norm" in columns
            and not math.isfinite(columns["grad_norm"])
            and not _lost_for_good(values, steps, step)
        ):
            del columns["grad_norm"]
        times = [p.time_ns for p in found.values() if p.time_ns is not None]
        target.step(rank, step, source, time_ns=min(times, default=None), **columns)
    for step, point in sorted(values.get("lr", {}).items()):
        target.add("param_groups", {"rank": rank, "step": step, "optimizer_id": 0, "group_id": 0, "lr": point.value})
    columns_of = {name for column, name in taken.items() if column != "grad_norm"}
    for name, points in given.items():
        for point in points if name not in columns_of else ():
            row = {"rank": rank, "step": point.step, "time_ns": point.time_ns or 0, "name": name, "value": point.value}
            target.add("metrics", {**row, "source": kind, "logged_step": point.step})
    words = [f"{column} from {name}" if column != name else column for column, name in taken.items()]
    others = len(given) - len(taken)
    return (
        f"{len(steps)} steps"
        + (f" ({', '.join(words)})" if words else "")
        + (f", {others} other curves" if others else "")
    )


def _first(curves: Curves, names: Sequence[str]) -> str | None:
    """The curve of the first of these names, capitals and separators apart; those of evaluations never."""
    plain = {name: re.sub(r"[^a-z0-9]", "", name.lower()) for name in curves if not _OTHER.search(name.lower())}
    for wanted in names:
        found = [name for name, short in plain.items() if short == wanted]
        if found:
            return max(found, key=lambda name: len(curves[name]))
    return None


def _lost_for_good(values: Mapping[str, Mapping[int, Point]], steps: Sequence[int], step: int) -> bool:
    """Whether a gradient norm that is not finite is more than a step that a loss scaler has left out: no finite norm, or no
    finite loss, comes after it."""
    losses, norms = values.get("loss", {}), values["grad_norm"]
    later = [s for s in steps if s >= step]
    finite_norms = any(s in norms and math.isfinite(norms[s].value) for s in later)
    finite_losses = any(s in losses and math.isfinite(losses[s].value) for s in later[1:])
    if (
        losses
        and not finite_losses
        and any(not math.isfinite(losses[s].value) for s in later[:_TRAILING] if s in losses)
    ):
        return True
    return not finite_norms and len(later) >= _TRAILING
