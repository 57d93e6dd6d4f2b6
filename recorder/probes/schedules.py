"""A learning-rate scheduler simulated to its end, on a copy that knows a dummy optimizer of the same settings."""

import copy
import warnings
from typing import Any

import torch

from ...schemas.files.probe_report import ProbeResult
from .schedule_ends import at_its_floor, only_rises, outlasts, stands_still, vanishes, waves
from .trial import result, untried

_MOST = 200_000
_POINTS = 200
_UNTOLD = 20_000
"""Steps over which a schedule without a length is looked at."""
_GONE = 1e-3
"""Share of its peak below which a learning rate trains nothing to speak of: what it still has to go is a thousandth."""
_FAR = 0.01
"""Share of the optimizer's learning rate that the highest of a schedule does not reach. Convention of this probe: factors are
meant to reach one, and a hundredth is none of these."""
_STAND_IN = 0.5
"""Learning rate of an optimizer from which it may stand in for one, so that the function gives the rate itself (Vaswani et al.
2017, with a base of 1)."""
_SHORT = 1_000
"""Optimizer steps within which a schedule that is over fits no run that is worth a preflight; a convention of this probe."""
_FEWEST_BATCHES = 20
"""Batches of a pass from which it is no chance that a length is so many passes: three in twenty."""
_HIGH = 0.1
"""Share of its peak above which a one-cycle schedule has not come down; a convention of this probe."""
_LEAST_KNOWN = 2
"""Steps that are kept of a schedule that is zero from its beginning."""
_HORIZONS = ("total_steps", "T_max", "total_iters", "T_0")
"""Attributes by which torch's schedulers say how long they are made for."""


def simulate(
    scheduler: Any,
    steps: int | None = None,
    name: str = "schedule",
    *,
    by_step: bool = False,
    epoch: int | None = None,
    read: int | None = None,
) -> ProbeResult:
    """Step a copy of the scheduler to the end: ``steps``, or what the scheduler itself was made for.

    Of a scheduler that looks at a metric nothing can be said beforehand. ``by_step``: the script was seen to step it with every
    optimizer step, so that a length counts these; ``epoch``: batches of one epoch, where that is known. ``read``: the calls of
    the whole run where they were read from the script's loops.
    """
    found = _simulated(scheduler, steps, name, by_step=by_step, epoch=epoch)
    if read is not None and "steps" in found.values:
        found.values |= {"steps": read, "read": True}
    return found


def _simulated(scheduler: Any, steps: int | None, name: str, *, by_step: bool, epoch: int | None) -> ProbeResult:
    kind = type(scheduler).__name__
    if kind == "ReduceLROnPlateau":
        return _of_a_metric(name, kind, scheduler)
    own = _horizon(scheduler)
    known = steps is not None
    count = min(steps or own or (_UNTOLD if by_step else 0), _MOST)
    if count < 2:
        return untried(name, "schedule-without-end", scheduler=kind)
    try:
        made = copy.deepcopy(scheduler, {id(scheduler.optimizer): _dummy(scheduler.optimizer)})
    except Exception as e:  # noqa: BLE001 — of a stranger's class
        return untried(name, "schedule-not-copied", scheduler=kind, error=f"{type(e).__name__}: {e}"[:200])
    rates: list[float] = [_rate(made.optimizer)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for step in range(1, count):
            try:
                made.step()
            except Exception as e:  # noqa: BLE001 — as above
                facts: dict[str, Any] = {"scheduler": kind, "step": step, "error": f"{type(e).__name__}: {e}"[:160]}
                return result(name, "failed" if known else "doubtful", "schedule-raises", _curve(rates), **facts)
            rates.append(_rate(made.optimizer))
    if not known and own is None:  # a function of the step that has come to zero has come to its end
        while len(rates) > _LEAST_KNOWN and rates[-1] <= 0.0 and rates[-2] <= 0.0:  # a straight line goes on below
            rates.pop()
        if rates[-1] < 0.0 < max(rates):
            rates[-1] = 0.0
    found = _far_below(_judged(name, kind, rates, own, known=known and not _restarts(scheduler)), scheduler)
    if known and found.outcome == "passed":
        found = _cut(found, scheduler)
    if known and own is None and found.outcome == "passed":
        found = waves(found, scheduler, rates)
    if known and found.outcome == "passed":
        found = vanishes(at_its_floor(only_rises(stands_still(found, scheduler, rates), rates), rates), rates)
    if known and found.outcome == "passed" and not _restarts(scheduler):
        found = outlasts(found, scheduler, made, rates)
    over = (
        _soon_over(found, rates, own, epoch)
        if by_step and not known and rates[found.values["peak_step"]] > 0
        else found
    )
    return found if over.outcome == "passed" else over


def _of_a_metric(name: str, kind: str, scheduler: Any) -> ProbeResult:
    """A scheduler that looks at a metric: nothing is known of its rates but how low they may go."""
    groups = scheduler.optimizer.param_groups
    least = [float(rate) for rate in getattr(scheduler, "min_lrs", None) or []]
    if len(least) == len(groups) and all(rate >= float(g["lr"]) for rate, g in zip(least, groups, strict=True)):
        return result(
            name, "doubtful", "schedule-cannot-fall", scheduler=kind, least=max(least), lr=_rate(scheduler.optimizer)
        )
    return untried(name, "schedule-of-a-metric", scheduler=kind)


def _restarts(scheduler: Any) -> bool:
    """Whether it is meant to rise again, itself or a part of it."""
    kinds = {type(s).__name__ for s in (scheduler, *getattr(scheduler, "_schedulers", ()))}
    return not kinds.isdisjoint({"CosineAnnealingWarmRestarts", "CyclicLR"})


def _cut(found: ProbeResult, scheduler: Any) -> ProbeResult:
    """A one-cycle schedule that is above its first rate and a tenth of its peak at the end of the run: it is to end far below
    the first (Smith & Topin 2018, and the documentation of OneCycleLR)."""
    first = max((float(g.get("initial_lr", 0.0)) for g in scheduler.optimizer.param_groups[:1]), default=0.0)
    own = found.values["made_for"]
    if (
        type(scheduler).__name__ == "OneCycleLR"
        and own > found.values["steps"]
        and found.values["last"] > max(first, _HIGH * found.values["peak"])
    ):
        return result(found.probe, "doubtful", "schedule-cut", found.curve, **found.values)
    return found


def _far_below(found: ProbeResult, scheduler: Any) -> ProbeResult:
    """A function that gives rates, or the factors of another rate, where LambdaLR multiplies the optimizer's own with it."""
    given = max((float(rate) for rate in getattr(scheduler, "base_lrs", ())), default=0.0)
    peak, steps = found.values.get("peak", 0.0), found.values.get("steps", 0)
    if (
        found.outcome == "passed"
        and type(scheduler).__name__ == "LambdaLR"
        and 0 < peak < _FAR * given
        and given < _STAND_IN
        and found.values["peak_step"] < steps - 1  # at the end it may still be warming up
    ):
        return result(found.probe, "doubtful", "schedule-far-below", found.curve, **found.values, given=given)
    return found


def _soon_over(found: ProbeResult, rates: list[float], own: int | None, epoch: int | None) -> ProbeResult:
    """A schedule in optimizer steps that is over before the run has begun to speak of, as one that was meant in epochs."""
    peak = int(found.values["peak_step"])
    gone = next((i for i in range(peak, len(rates)) if rates[i] < _GONE * rates[peak]), None)
    whole = gone is not None and epoch is not None and _whole_passes(gone, epoch)
    if gone is not None and gone < _SHORT and (own is None or gone < 0.5 * own) and not whole:
        return result(found.probe, "doubtful", "schedule-gone", found.curve, **found.values, gone=gone)
    # a warm-up is to be over soon; what is over soon and low is not
    over_low = rates[-1] < 0.5 * rates[peak]
    if own is not None and epoch is not None and own < epoch and own < _SHORT and over_low:
        return result(found.probe, "doubtful", "schedule-within-epoch", found.curve, **found.values, epoch=epoch)
    return found


def _whole_passes(steps: int, epoch: int) -> bool:
    """Whether a length is that of a few whole passes over the data, but for a step: it was counted in optimizer steps."""
    return epoch >= _FEWEST_BATCHES and steps + 1 >= 2 * epoch and min(steps % epoch, -steps % epoch) <= 1


def _judged(name: str, kind: str, rates: list[float], own: int | None, *, known: bool) -> ProbeResult:
    peak = max(range(len(rates)), key=lambda i: rates[i])
    facts: dict[str, Any] = {"scheduler": kind, "steps": len(rates), "made_for": own, "first": rates[0]}
    facts |= {"peak": rates[peak], "peak_step": peak, "last": rates[-1]}
    curve = _curve(rates)
    if rates[peak] <= 0 or any(r < 0 for r in rates):
        return result(name, "failed", "schedule-not-positive", curve, **facts)
    zeros = sum(r <= rates[peak] * 1e-9 for r in rates)
    if zeros > max(2, 0.1 * len(rates)):
        return result(name, "doubtful", "schedule-zero", curve, zeros=zeros, **facts)
    high = next(i for i, rate in enumerate(rates) if rate >= 0.999 * rates[peak])  # each swing rounds otherwise
    below = (i for i in range(high, len(rates) - 1) if rates[i] < 0.1 * rates[peak] and rates[i] < rates[i + 1])
    low = next(below, min(range(peak, len(rates)), key=lambda i: rates[i]))
    rises = rates[low] < 0.1 * rates[peak] and max(rates[low:]) > 5 * max(rates[low], 1e-3 * rates[peak])
    if known and rises and own is not None and own < len(rates):
        return result(name, "doubtful", "schedule-rises-again", curve, low_step=low, **facts)
    if known and peak == len(rates) - 1 and rates[-1] > 1.05 * rates[0] and kind not in {"LambdaLR", "CyclicLR"}:
        return result(name, "doubtful", "schedule-never-falls", curve, **facts)
    return result(name, "passed", "schedule-simulated", curve, **facts)


def _horizon(scheduler: Any) -> int | None:
    inner = getattr(scheduler, "_schedulers", None)
    if inner:
        marks = [int(m) for m in getattr(scheduler, "_milestones", [])]
        last = _horizon(inner[-1])
        return (max(marks, default=0) + last) if last else None
    milestones = getattr(scheduler, "milestones", None)
    if milestones:
        return int(max(milestones)) + 1
    for attribute in _HORIZONS:
        value = getattr(scheduler, attribute, None)
        if isinstance(value, int) and value > 1:
            return value + 1 if attribute == "T_max" else value
    return None


def _dummy(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    groups: list[dict[str, Any]] = []
    for group in optimizer.param_groups:
        settings = {k: copy.deepcopy(v) for k, v in group.items() if k != "params"}
        groups.append({"params": [torch.nn.Parameter(torch.zeros(1))], **settings})
    dummy = torch.optim.SGD(groups, lr=1.0)
    for made, group in zip(dummy.param_groups, optimizer.param_groups, strict=True):
        made.update({k: copy.deepcopy(v) for k, v in group.items() if k != "params"})
    dummy._opt_called = True  # type: ignore[attr-defined]  # what a scheduler asks for before its second step
    return dummy


def _rate(optimizer: torch.optim.Optimizer) -> float:
    return float(optimizer.param_groups[0]["lr"])


def _curve(rates: list[float]) -> list[tuple[float, float]]:
    every = max(1, len(rates) // _POINTS)
    return [(float(i), r) for i, r in enumerate(rates) if i % every == 0 or i == len(rates) - 1]
