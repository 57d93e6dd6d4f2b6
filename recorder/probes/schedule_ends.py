"""Where a smooth schedule comes to its end, beside where the run does: long before it, again and again, or long after it."""

import functools
import inspect
import math
import re
import warnings
from itertools import pairwise
from typing import Any

from ...schemas.files.probe_report import ProbeResult
from .trial import result

_MOST = 200_000
"""Steps to which a schedule is followed beyond the run: seconds."""
_LOW = 0.1
"""Share of its peak below which a schedule has come down: as a one-cycle schedule. Convention of this probe."""
_HALF = 0.5
"""Share of its peak above which a schedule has hardly come down at the end; that of a cosine is there after half its length."""
_FAR = 2
"""Lengths of the run after which a schedule ends that is not made for it: it has then done less than half."""
_LONG = 1_000
"""Steps of a run that is worth a warm-up. Convention of this probe; the test of a range of rates has some hundred."""
_FLOOR = 0.02
"""Share of its peak that trains little. Convention of this probe: floors on purpose are a tenth of the peak, or a twentieth."""
_EARLY = 0.2
"""Share of the run after which it may be there."""
_NOTHING = 1e-3
"""Share of its peak that trains nothing to speak of: what a rate still has to go is a thousandth."""
_LEAST = 10
"""Steps of half a wave, and of a tail, in which a bend is told from a corner."""
_BEND = 0.06
"""Share of its height that a wave has risen a twentieth of its length after its lowest point. Arithmetic: a cosine rises by
0.024 there, straight lines by 0.1."""
_ALIKE = 0.02
"""Share of the peak by which both sides of a lowest point may differ: one step of a steep wave of ten steps' rounding."""
_STEEPER = 2
"""How much faster a schedule falls, for what it still is, before its end than in the run. Arithmetic: an exponential falls as
fast, an inverse root slower; a straight line or a cosine to its end falls ever faster."""
_MEANT = re.compile(r"cycl|restart|triang|period|wave|oscill|sgdr|snapshot|%", re.IGNORECASE)
_OF_RUN = re.compile(
    r"\btotal\w*|(max|num|decay|train\w*)_?(\w*_)?(steps?|epochs?|iter\w*)|t_?max\b|\bepochs\b|horizon", re.IGNORECASE
)
_HALF_CYCLE = 0.5
"""``num_cycles`` of transformers' cosine that comes down once."""


def waves(found: ProbeResult, scheduler: Any, rates: list[float]) -> ProbeResult:
    """A cosine that goes on beyond its end: it turns smoothly at its lowest, and its function names a length of the run."""
    if getattr(scheduler, "lr_lambdas", None) is None and type(scheduler).__module__.startswith("torch."):
        return found
    lows, half = _lows(rates)
    if not lows or half is None:
        return found
    words = _words(scheduler)
    if (
        words is None
        or _MEANT.search(words)
        or not _OF_RUN.search(re.sub(r"\w*warm\w*", "", words, flags=re.IGNORECASE))
    ):
        return found
    return result(
        found.probe, "doubtful", "schedule-waves", found.curve, **found.values, lows=len(lows), half=lows[0][1]
    )


def _lows(rates: list[float]) -> tuple[list[tuple[int, int]], int | None]:
    """Lowest points, each from the first step there to the last, and half of their distance; none where it is no even wave."""
    top = max(rates)
    peak = next(i for i, r in enumerate(rates) if r >= (1 - _LOW) * top)
    lows: list[tuple[int, int]] = []
    for i in range(peak + 1, len(rates) - 1):
        if rates[i] < _LOW * top and rates[i - 1] >= rates[i] < rates[i + 1]:
            first = i
            while rates[first - 1] == rates[i]:
                first -= 1
            lows.append((first, i))
    if len(lows) < 2:
        return [], None
    apart = [b[1] - a[1] for a, b in pairwise(lows)]
    half = apart[0] // 2
    if half < _LEAST or max(apart) - min(apart) > 2:
        return [], None
    for (first, last), (following, _) in pairwise(lows):
        if max(rates[last:following]) < (1 - _LOW) * top:
            return [], None
        sides = (
            (rates[first - k], rates[last + k]) for k in range(min(half - (last - first), first + 1, len(rates) - last))
        )
        if any(abs(a - b) > _ALIKE * top for a, b in sides):
            return [], None
        if rates[last + max(1, round(half / 10))] - rates[last] > _BEND * top:
            return [], None
    return lows, half


def at_its_floor(found: ProbeResult, rates: list[float]) -> ProbeResult:
    """A schedule that has come to its lowest rate early, and stays there for most of the run: it is made for a shorter one."""
    floor, top = rates[-1], max(rates)
    if len(rates) < _LONG or not 0 < floor <= _FLOOR * top:
        return found
    since = next(len(rates) - i for i, rate in enumerate(reversed(rates)) if rate != floor)
    if since <= _EARLY * len(rates):
        return result(found.probe, "doubtful", "schedule-at-its-floor", found.curve, **found.values, since=since)
    return found


def vanishes(found: ProbeResult, rates: list[float]) -> ProbeResult:
    """A schedule that falls on without a floor, and is below a thousandth of its peak for more than half of the run."""
    top = max(rates)
    gone = next((i for i in range(rates.index(top), len(rates)) if rates[i] < _NOTHING * top), len(rates))
    if found.outcome != "passed" or len(rates) < _LONG or gone >= _HALF * len(rates) or max(rates[gone:]) >= _LOW * top:
        return found
    return result(found.probe, "doubtful", "schedule-vanishes", found.curve, **found.values, gone=gone)


def stands_still(found: ProbeResult, scheduler: Any, rates: list[float]) -> ProbeResult:
    """A StepLR that never changes the rate in the run: its period is longer, or no whole number."""
    if type(scheduler).__name__ != "StepLR" or scheduler.gamma == 1 or len(rates) < _LEAST or max(rates) != min(rates):
        return found
    return result(
        found.probe, "doubtful", "schedule-stands-still", found.curve, **found.values, period=scheduler.step_size
    )


def only_rises(found: ProbeResult, rates: list[float]) -> ProbeResult:
    """A schedule that rises from the first step of the run to its last: its warm-up takes all of it."""
    rising = len(rates) >= _LONG and all(a <= b for a, b in pairwise(rates)) and rates[0] <= _HALF * rates[-1]
    # one that stands still at the end has come to its peak
    if rising and rates[-1] > rates[-max(2, len(rates) // 10)]:
        return result(found.probe, "doubtful", "schedule-only-rises", found.curve, **found.values)
    return found


def outlasts(found: ProbeResult, scheduler: Any, made: Any, rates: list[float]) -> ProbeResult:
    """A schedule that falls on and on beyond the run, to an end of its own, and has hardly come down when the run ends."""
    top, last = max(rates), rates[-1]
    tail = rates[-max(3, len(rates) // 10) :]
    steady = all(a > b > 0 for a, b in pairwise(tail))
    if len(rates) < _LEAST or not steady or last <= _HALF * top or _MEANT.search(_words(scheduler) or ""):
        return found
    beyond = list(rates)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while len(beyond) < _MOST:
            try:
                made.step()
            except Exception:  # noqa: BLE001 — of a stranger's class
                return found
            beyond.append(float(made.optimizer.param_groups[0]["lr"]))
            if beyond[-1] >= beyond[-2]:
                break
        else:
            return found
    end = len(beyond) - 2
    floor = beyond[end]
    if end < _FAR * len(rates) or not 0 <= floor <= _LOW * top:
        return found
    before = end - max(2, (end - len(rates)) // 10)
    near = math.log(beyond[before] / max(beyond[end], 1e-3 * beyond[before])) / (end - before)
    inside = math.log(tail[0] / tail[-1]) / (len(tail) - 1)
    if near < _STEEPER * inside:
        return found
    return result(found.probe, "doubtful", "schedule-outlasts", found.curve, **found.values, end=end)


def _words(scheduler: Any) -> str | None:
    """The source of what gives the rates, without ``num_cycles`` where that is the half of one; None where there is none."""
    inner = [s for s in getattr(scheduler, "_schedulers", ()) if s is not scheduler]
    made: list[Any] = [f for s in (scheduler, *inner) for f in getattr(s, "lr_lambdas", ())]
    made += [type(s) for s in (scheduler, *inner) if not type(s).__module__.startswith("torch.")]
    text: list[str] = []
    for part in dict.fromkeys(made):
        named: dict[str, Any] = {}
        function = part
        while isinstance(function, functools.partial):
            named |= function.keywords
            function = function.func
        if not isinstance(function, type) and not inspect.isroutine(function):
            function = type(function)
        try:
            source = inspect.getsource(function)
            if inspect.isfunction(function):
                named |= inspect.getclosurevars(function).nonlocals
        except Exception:  # noqa: BLE001 — of a stranger's source
            return None
        if named.get("num_cycles") == _HALF_CYCLE:
            source = source.replace("num_cycles", "")
        text += [getattr(function, "__qualname__", ""), source]
    return "\n".join(text)
