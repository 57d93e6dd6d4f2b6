"""Whether anything is learnt: the first batch over and over, a range test of the learning rate, the same iteration twice.

The range test is Smith's ("Cyclical learning rates", 2017) as fastai runs it: exponential, smoothed, ended at four times the best
loss. Overfitting one batch is the standard first test of a training program (Karpathy's recipe; Goodfellow et al., 11.5).
"""

import itertools
import math
from collections.abc import Generator
from typing import Any

import torch
from torch import Tensor

from ...schemas.files.probe_report import ProbeResult
from .trial import Probe, Seen, Setting, Trial, result, untried

STEPS = 60
"""Iterations of one batch. The default of `can_learn`."""

_FELL = 0.5
"""Share of the first loss to which one batch's loss falls where learning is under way: less than half says nothing more of
whether the rest will follow, and every training in tests/programs gets there or shows its floor."""

_SLOWLY = 0.9
"""Share below which the loss is on its way at all: small learning rates need more than one batch's few iterations."""

_NOTHING = 0.98
"""Share above which the loss has not moved: two percent are what an unlearnt bias of the last layer brings."""

_STEADY = 0.8
"""Share of the first half's fall that the second half keeps where a loss falls steadily, and has not found its floor."""

_HIGHEST = 0.01
"""Learning rate up to which a loss that nothing has moved is tried: ten times what optimizers of torch take by themselves."""

_FAR = 300.0
"""Times the script's learning rate from which on another one is no matter of tuning: two and a half decades; a convention of
this probe."""

_TAKEN = 0.5
"""Share of the elements that a larger rate moves which the script's own has to move as well. Below it most of its steps are lost
in the digits of the weights, and more of them lead nowhere; in float32 it is nearly all."""

_LONG = 10_000
"""Steps within which a steady fall is to get where a larger rate gets in one batch's few; a convention of this probe."""

_DIVERGED = 4.0
"""Multiples of the best smoothed loss at which a range test ends (fastai)."""

_TURNS = 3.0
"""Times the script's own rate at which the loss of a range test is lowest, or less: it turns there. Convention of such tests: a
rate well below the lowest loss, by a factor of ten (Smith 2017, arXiv:1506.01186, and fastai's finder). A rate that has learnt a
batch is only doubted where it is larger itself."""

_LOW = 30.0
"""Times the script's own rate from which on the one at which half of the fall is done, divided by ten, is another one: one and a
half decades. Convention of this probe; suggestions of such tests differ by one decade (Smith 2017)."""

_CLEAR = 0.3
"""Share of the loss that has to be gone there: a small dip may be the scatter of batches."""

_BACK = 0.25
"""Share of the fall by which the loss has risen again beyond its lowest point. Convention of this probe: a quarter is no scatter
of smoothed losses that only rise."""

_GOES_ON = 0.25
"""Share of the first half's fall that the second half has to add where a loss without a target still falls. Convention of this
probe: an exponential fall keeps less once three quarters of it are done."""

_ROUNDINGS = 4
"""Roundings in a difference of differences. Arithmetic: three gradients are rounded, and the middle one counts twice."""
_EVEN = 0.25
"""Share of a change by which the next one may be another, where a count makes both: a ramp that bends. Convention; two changes
by chance are 1.7 times their own size apart."""

_SMOOTHING = 0.7
"""Weight of the past in the smoothed loss; fastai takes 0.98 over 100 batches, here there are half as many."""


def can_learn(setting: Setting, steps: int | None = None) -> Probe:
    """Train on the first batch over and over, from the starting weights."""
    name, steps = "can-learn", steps or setting.steps
    if setting.optimizers != 1:
        return untried(name, "several-optimizers", optimizers=setting.optimizers)
    if not setting.fixed_batch:
        return untried(name, "batch-not-fixed")
    shares: dict[float, float] = {}
    aimed = bool(setting.targets)
    own: tuple[list[tuple[float, float]], dict[str, Any]] | None = None
    lowest: tuple[float, dict[str, Any]] | None = None
    """The lowest loss at other rates, and what belongs to it."""
    still: list[Tensor] = []
    """Which elements of the weights the script's own rate left as they were."""
    rates = [setting.lr]
    for rate in rates:
        losses, before = [], [p.detach().clone() for p in setting.parameters]
        for step in range(steps):
            seen: Seen = yield Trial(fresh=step == 0, lr=rate)
            if seen.loss is None:
                return untried(name, "no-loss")
            losses.append(seen.loss)
            aimed = aimed or bool(seen.targets)
            if not math.isfinite(seen.loss):
                break
        if not math.isfinite(losses[0]):
            return result(name, "failed", "first-loss-lost", loss=losses[0])
        reached = min(v for v in losses if math.isfinite(v))
        shares[rate] = _share(losses[0], reached)
        idle = _idle(setting, before) if len(losses) > 1 else []
        facts: dict[str, Any] = {"first": losses[0], "last": reached, "steps": len(losses), "lr": rate}
        facts |= {"idle": idle[:8], "idle_count": len(idle), "all": len(setting.parameters)}
        curve = [(float(i), v) for i, v in enumerate(losses)]
        if own is None:
            own, still = (curve, facts), _unchanged(setting, before)
            lower = not math.isfinite(losses[-1]) or losses[-1] > losses[0]  # it flies apart: smaller ones first
            rates += [setting.lr * factor for factor in ((0.1, 0.01, 1e-3, 10) if lower else (10, 100, 0.1))]
            if shares[rate] <= _FELL:
                half = next(i for i, v in enumerate(losses) if _share(losses[0], v) <= _FELL)
                setting.learnt, setting.reached = True, reached
                return result(name, "passed", "learns", curve, half=half, **facts)
            if shares[rate] <= _SLOWLY:
                return result(name, "passed", "learns-slowly", curve, **facts)
            continue
        facts |= {"own": setting.lr, "own_last": own[1]["last"], "taken": _taken(still, _unchanged(setting, before))}
        if shares[rate] <= _FELL:
            facts["total"] = setting.total_steps
            found = _elsewhere(own[0], curve, facts, moved=shares[setting.lr] <= _NOTHING)
            setting.needed_steps = found.values.get("needed")
            return found
        if lowest is None or reached < lowest[0]:
            lowest = reached, facts
        rates += _higher(rates, shares)
    found = _nowhere_halved(own or ([], {}), lowest, shares, aimed=aimed)
    setting.needed_steps = found.values.get("needed")
    return found


def _higher(rates: list[float], shares: dict[float, float]) -> list[float]:
    """Another learning rate to try where all have been and none has moved the loss."""
    further = len(shares) == len(rates) and min(shares.values()) > _NOTHING and 10 * max(rates) <= _HIGHEST
    return [10 * max(rates)] if further else []


def _elsewhere(
    own: list[tuple[float, float]], curve: list[tuple[float, float]], facts: dict[str, Any], *, moved: bool
) -> ProbeResult:
    """What of a loss that another learning rate than the script's has halved."""
    name, needed = "can-learn", _steps_needed(own, facts["last"])
    if not moved and needed is not None:
        return result(name, "passed", "learns-steadily", own, needed=needed, **facts)
    if moved:
        return result(name, "passed", "learns-at-another-lr", curve, **facts)
    return _unmoved(curve, facts)


def _unmoved(curve: list[tuple[float, float]], facts: dict[str, Any]) -> ProbeResult:
    """What of a script whose own rate moves nothing within these steps while another does.

    A larger rate goes the same way in fewer steps: it takes the script's as many times more as its rate is smaller. That is
    a doubt where the run is known to have fewer, and where the script's steps do not reach the weights at all. Where a smaller
    rate learns, the script's oversteps.
    """
    name, times = "can-learn", facts["lr"] / facts["own"]
    if times >= _FAR:
        return result(name, "failed", "learns-at-another-lr", curve, **facts)
    if times < 1:
        return result(name, "doubtful", "learns-at-another-lr", curve, **facts)
    if facts["taken"] < _TAKEN:
        return result(name, "doubtful", "weights-stay", curve, **facts)
    needed = round(times * facts["steps"])
    total = facts.get("total")
    if (
        total is not None and total < needed / 10
    ):  # a tenth of this rate has been tried: it does not bring the loss there
        return result(name, "doubtful", "learns-too-late", curve, needed=needed // 10, **facts)
    return result(name, "passed", "learns-later", curve, needed=needed, **facts)


def _nowhere_halved(
    own: tuple[list[tuple[float, float]], dict[str, Any]],
    lowest: tuple[float, dict[str, Any]] | None,
    shares: dict[float, float],
    *,
    aimed: bool,
) -> ProbeResult:
    """What of a loss that no learning rate has halved; ``shares`` is what each of them, the script's first, has left of it.
    ``aimed``: it has a target."""
    name, (curve, facts) = "can-learn", own
    share, own_share = min(shares.values()), next(iter(shares.values()))
    if not aimed and own_share <= _NOTHING and _goes_on(curve):
        # a density's loss is known up to a constant: half of it is no mark, and its floor may lie anywhere
        return result(name, "passed", "learns-slowly", curve, **facts)
    needed = _steps_needed(curve, lowest[0]) if lowest is not None and share <= _SLOWLY else None
    if lowest is not None and needed is not None:
        return result(name, "passed", "learns-steadily", curve, needed=needed, **lowest[1])
    if share > _NOTHING:
        return result(name, "failed", "does-not-learn", curve, **facts)
    if lowest is not None and own_share > _NOTHING and share <= _SLOWLY:
        return _unmoved(curve, lowest[1])
    return result(name, "doubtful", "learns-too-slowly", curve, **facts)


def _goes_on(curve: list[tuple[float, float]]) -> bool:
    """Whether the second half of a curve still falls by a good part of what the first half has fallen."""
    first, middle, last = curve[0][1], curve[len(curve) // 2][1], curve[-1][1]
    return middle - last >= _GOES_ON * (first - middle) > 0


def _steps_needed(curve: list[tuple[float, float]], there: float) -> int | None:
    """Steps in which a loss that falls steadily at the script's own rate gets to where another rate brings it; None where it
    does not fall steadily, or not within a run."""
    losses = [v for _, v in curve]
    falls = [a - b for a, b in itertools.pairwise(losses)]
    half = len(falls) // 2
    if half < 2 or sum(f > 0 for f in falls) < 0.9 * len(falls) or sum(falls[half:]) < _STEADY * sum(falls[:half]):
        return None
    needed = (losses[0] - there) / (sum(falls) / len(falls))
    return round(needed) if 0 < needed <= _LONG else None


def lr_range(setting: Setting, steps: int | None = None) -> Probe:
    """Raise the learning rate from a thousandth to a thousand times the script's own and see where the loss falls."""
    name, steps = "lr-range", steps or setting.steps
    if setting.optimizers != 1:
        return untried(name, "several-optimizers", optimizers=setting.optimizers)
    if setting.lr <= 0:
        return untried(name, "lr-zero")
    if not setting.from_loader and not setting.fixed_batch:
        # a game goes on: its loss jumps where an episode ends, at whatever rate
        return untried(name, "batch-not-fixed")
    if not setting.from_loader:
        seen: Seen = yield Trial()
        if not seen.targets:
            # of a game that the script plays against itself: returns and advantages have no level that a rate could raise
            return untried(name, "loss-without-target")
    for exponent in (-3, -7):
        curve, diverged = yield from _raised(setting.lr, exponent, steps)
        if len(curve) >= 10:
            break
    if len(curve) < 10:
        return untried(name, "diverged-at-once" if diverged is not None else "no-loss", lr=setting.lr)
    total, needed = setting.planned_steps, setting.needed_steps
    in_time = total is not None and needed is not None and needed <= total
    # what has brought a batch's loss lower than any rate of the test is not beyond the turn
    lower = setting.reached is not None and setting.reached < min(loss for _, loss in curve)
    return _band(setting.lr, curve, diverged, learnt=setting.learnt, in_time=in_time, lower=lower)


def _band(
    own: float,
    curve: list[tuple[float, float]],
    diverged: float | None,
    *,
    learnt: bool = False,
    in_time: bool = False,
    lower: bool = False,
) -> ProbeResult:
    """Where the script's own rate lies on a curve of rates and losses. ``learnt``: it has brought a batch's loss down to half;
    ``in_time``: it gets as far as a larger one within the run; ``lower``: it has brought a batch's loss lower than any did."""
    name = "lr-range"
    lowest = min(range(len(curve)), key=lambda i: curve[i][1])
    floor, first = curve[lowest][1], curve[0][1]
    noise = max(abs(a[1] - b[1]) for a, b in itertools.pairwise(curve[:7]))
    if first - floor <= max(2 * noise, 0.01 * abs(first)):
        return result(name, "passed", "lr-says-nothing", curve=curve, lr=own)
    high = curve[lowest][0] / 10
    low = next(rate for rate, v in curve if v <= first - 0.1 * (first - floor)) / 10
    facts: dict[str, Any] = {"lr": own, "low": min(low, high), "high": high, "lowest": curve[lowest][0]}
    facts["diverged"] = diverged
    if diverged is not None and own >= diverged:
        return result(name, "failed", "lr-diverges", curve=curve, **facts)
    if diverged is not None and own * 3 >= diverged:
        return result(name, "doubtful", "lr-near-divergence", curve=curve, **facts)
    half = next(rate for rate, v in curve if v <= first - 0.5 * (first - floor)) / 10
    # a rate that has learnt is told from the lowest one only where a rate lies between them
    there = curve[min(lowest + 1, len(curve) - 1)][0] if learnt else curve[lowest][0] / _TURNS
    turns = own >= there and first - floor >= _CLEAR * abs(first) and not lower
    if turns and not _comes_back(curve[lowest:], floor + _BACK * (first - floor)):
        return result(name, "doubtful", "lr-at-the-turn", curve=curve, **facts)
    if diverged is None and floor > 0 and lowest == len(curve) - 1 and own * _LOW <= half and not in_time:
        # a thousand times the rate is still not too much
        return result(name, "doubtful", "lr-far-too-low", curve=curve, **{**facts, "low": half})
    if own * 300 <= low:
        return result(name, "doubtful", "lr-far-too-low", curve=curve, **facts)
    return result(name, "passed", "lr-in-band", curve=curve, **facts)


def _comes_back(curve: list[tuple[float, float]], level: float) -> bool:
    """Whether the loss falls below a level again after it rose above it: then its lowest point was scatter, and no turn."""
    above = next((i for i, (_, loss) in enumerate(curve) if loss > level), len(curve))
    return any(loss < level for _, loss in curve[above:])


def _raised(
    own: float, exponent: int, steps: int
) -> Generator[Trial, Seen, tuple[list[tuple[float, float]], float | None]]:
    """Learning rates with the smoothed loss, over six decades from ``own`` times ten to that exponent; and where it diverged."""
    curve: list[tuple[float, float]] = []
    smooth, best = math.nan, math.inf
    for i in range(steps):
        rate = own * 10 ** (exponent + 6 * i / (steps - 1))
        seen: Seen = yield Trial(fresh=i == 0, lr=rate, stream=True)
        if seen.loss is None:
            return [], None
        if not math.isfinite(seen.loss):
            return curve, rate
        smooth = seen.loss if math.isnan(smooth) else _SMOOTHING * smooth + (1 - _SMOOTHING) * seen.loss
        curve.append((rate, smooth))
        best = min(best, smooth)
        if smooth > _DIVERGED * best and best > 0:
            return curve, rate
    return curve, None


_ORDER = 1e-3
"""Share of a gradient by which it may differ on CUDA, where some operators add in any order (torch's notes on reproducibility):
float32's rounding of 1e-7, with room for what a deep model makes of it."""


def repeatable(setting: Setting) -> Probe:
    """Make the same iteration twice, from the same weights and random states: loss and gradients must be the same bits."""
    name = "repeatable"
    one = yield Trial(keep_gradients=True)
    two = yield Trial(keep_gradients=True)
    if one.loss is None:
        return untried(name, "no-loss")
    if [t.shape for t in one.inputs] != [t.shape for t in two.inputs] or not all(
        torch.equal(a, b) for a, b in zip(one.inputs, two.inputs, strict=True)
    ):
        setting.fixed_batch = False
        return untried(name, "batch-not-fixed")
    if not setting.from_loader and one.loss != two.loss:
        setting.fixed_batch = False
        return untried(name, "batch-not-fixed")
    differing = [
        (parameter, a, b)
        for parameter, a, b in zip(setting.names, one.gradients, two.gradients, strict=False)
        if a is not None and b is not None and not torch.equal(a, b) and bool(a.isfinite().all())
    ]
    if differing and one.other_batches:
        setting.fixed_batch = False
        return untried(name, "batch-not-fixed")
    if differing:
        three = yield Trial(keep_gradients=True)
        setting.counted = _evenly_apart(one, two, three)
        if setting.counted:
            return result(name, "passed", "count-followed", one=one.loss, two=two.loss, three=three.loss)
        parameter, a, b = differing[0]
        if a.is_cuda and (share := max(_relative(a, b) for _, a, b in differing)) < _ORDER:
            return result(name, "passed", "order-differs", parameter=parameter, share=share)
        return result(name, "doubtful", "gradient-differs", parameter=parameter, share=_relative(a, b))
    if one.loss != two.loss and math.isfinite(one.loss):
        return result(name, "doubtful", "loss-differs", one=one.loss, two=two.loss)
    return result(name, "passed", "same-bits", loss=one.loss)


def mixed_precision(setting: Setting) -> Probe:
    """Make an iteration in float32 and in bfloat16 autocast: how far the losses are apart, and the time of each."""
    name = "precision"
    times: dict[bool, list[float]] = {False: [], True: []}
    losses: dict[bool, float | None] = {}
    for _ in range(2):
        for mixed in (False, True):
            seen = yield Trial(autocast=torch.bfloat16 if mixed else None)
            times[mixed].append(seen.seconds)
            losses[mixed] = seen.loss
    full, half = losses[False], losses[True]
    if full is None or half is None or not math.isfinite(full):
        return untried(name, "no-loss")
    device = next((p.device.type for p in setting.parameters), "cpu")
    apart = abs(half - full) / max(abs(full), 1e-12)
    facts: dict[str, Any] = {"float32": min(times[False]), "mixed": min(times[True]), "apart": apart, "device": device}
    return result(name, "passed", "mixed-measured" if math.isfinite(half) else "mixed-loses", **facts)


def _share(first: float, now: float) -> float:
    """What is left of a loss; for one that may be negative, by how much it has fallen on its own scale."""
    return now / first if first > 0 else 1.0 - (first - now) / max(abs(first), 1e-12)


def _relative(a: Tensor, b: Tensor) -> float:
    return float((a - b).norm() / a.norm().clamp_min(1e-30))


def _evenly_apart(one: Seen, two: Seen, three: Seen) -> bool:
    """Whether gradients move by the same in each iteration: a number that the script counts up is in the loss, such as that of
    a warm-up. What chance changes does not go on in the direction in which it went."""
    moved = further = rounding = 0.0
    for a, b, c in zip(one.gradients, two.gradients, three.gradients, strict=True):
        if a is not None and b is not None and c is not None:
            moved += float((b - a).double().square().sum())
            further += float((c - b - (b - a)).double().square().sum())
            rounding += (_ROUNDINGS * torch.finfo(a.dtype).eps) ** 2 * float(a.double().square().sum())
    return math.isfinite(moved) and further <= max(_EVEN**2 * moved, min(rounding, moved / 4))


def _idle(setting: Setting, before: list[Tensor]) -> list[str]:
    """Parameters that no iteration has changed."""
    pairs = zip(setting.names, setting.parameters, before, strict=True)
    return [name for name, now, then in pairs if torch.equal(now.detach(), then)]


def _unchanged(setting: Setting, before: list[Tensor]) -> list[Tensor]:
    """Where each parameter's elements are as they were."""
    return [now.detach() == then for now, then in zip(setting.parameters, before, strict=True)]


def _taken(own: list[Tensor], other: list[Tensor]) -> float:
    """Of the elements that another rate has changed, the share that the script's own has changed."""
    changed = sum(int((~there).sum()) for there in other)
    both = sum(int((~here & ~there).sum()) for here, there in zip(own, other, strict=True))
    return both / changed if changed else 1.0


ALL: dict[str, Any] = {
    "repeatable": repeatable,
    "precision": mixed_precision,
    "can-learn": can_learn,
    "lr-range": lr_range,
}
