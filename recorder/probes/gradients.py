"""Gradients against differences: of the whole loss along random directions, and of the script's own autograd Functions.

The directional derivative of the loss is taken by central differences at two distances; only where both agree with each other
can they say that autograd is wrong. `torch.autograd.gradcheck` judges a custom Function in float64, on copies of what it was
called with.
"""

import math
from collections.abc import Generator, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import gradcheck

from ...schemas.files.probe_report import ProbeResult
from .trial import Probe, Seen, Setting, Trial, result, untried

_DISTANCES = (3e-3, 1e-2)
"""Of the weights' own size: float32 loses half its digits to the difference there, and curvature stays below a percent."""

_TRUSTED = 0.05
"""Relative distance up to which two differences confirm each other."""

_WRONG = 0.2
"""Relative distance from autograd's value that neither rounding nor curvature explains where the differences agree to 0.05."""

_ROUNDED = 8
"""Multiples of the precision by which rounding moves a loss: 1e-6 of it in float32, 6 % in bfloat16, where nothing is left to
compare."""

_DIRECTIONS = 3

_MOST_ELEMENTS = 1 << 23
"""Of the inputs of a custom Function that are checked along directions: a dozen passes over 64 MiB of float64."""


def directional(setting: Setting, directions: int = 3) -> Probe:
    """Compare the loss's differences along random directions with what autograd says."""
    name = "gradients"
    base = yield Trial(keep_gradients=True)
    if base.loss is None or base.backwards != 1 or not math.isfinite(base.loss):
        return untried(name, "several-backwards" if base.backwards > 1 else "no-loss", backwards=base.backwards)
    if not setting.fixed_batch:
        return untried(name, "batch-not-fixed")
    if setting.own_gradients:
        return untried(name, "gradients-of-its-own")
    again = yield Trial()
    if again.loss != base.loss and not setting.counted:
        return untried(name, "not-repeatable")
    worst = yield from _apart(setting, directions, base)
    if worst is not None and worst["apart"] > _WRONG:
        # what a model sets up from its first batch follows its weights once, and stays from then on
        yield Trial(keep_buffers=True)
        later = yield from _apart(setting, directions, (yield Trial(keep_gradients=True, warmed=True)), warmed=True)
        worst = later if later is not None and later["apart"] <= _WRONG else worst
    if worst is None:
        return untried(name, "differences-disagree", directions=directions)
    if worst["apart"] > _WRONG:
        if not setting.from_loader and not base.targets:
            # a policy's loss is made for its gradient: advantages are cut off by intention
            return untried(name, "loss-without-target")
        looked = yield Trial(follow_detached=True)
        if looked.detached and all(_reached(base.gradients[place]) for place in looked.detached):
            return untried(name, "detached-on-purpose", place=looked.detached_at)
        return result(name, "doubtful", "gradient-wrong", **worst)
    return result(name, "passed", "gradient-right", **worst)


def _reached(gradient: Tensor | None) -> bool:
    return gradient is not None and bool(gradient.count_nonzero())


def _apart(
    setting: Setting, directions: int, base: Seen, *, warmed: bool = False
) -> Generator[Trial, Seen, dict[str, Any] | None]:
    """The direction in which autograd and the loss's differences are farthest apart, of those in which the differences can be
    trusted. None: there is none, or no loss."""
    generator = torch.Generator().manual_seed(0)
    floats = [p.dtype for p in setting.parameters] + base.output_dtypes
    rounded = _ROUNDED * max((torch.finfo(dtype).eps for dtype in floats), default=0.0)
    judged = 0
    worst: tuple[float, float, float] | None = None
    if base.loss is None:
        return None
    for _ in range(directions):
        direction = [_random_like(p, generator) for p in setting.parameters]
        for place, row in setting.padding_rows.items():
            direction[place][row] = 0
        expected, found = math.nan, list[float]()
        for distance in _DISTANCES:
            slope, middle = yield from _slope(direction, distance, base, counted=setting.counted, warmed=warmed)
            if slope is None:
                return None
            found.append(slope)
            expected = sum(_dot(g, d) for g, d in zip(middle.gradients, direction, strict=True) if g is not None)
        near, far = found
        noise = rounded * abs(base.loss) / _DISTANCES[0]
        scale = max(abs(near), abs(far), abs(expected))
        if scale <= 10 * noise or abs(near - far) > _TRUSTED * scale:
            continue
        judged += 1
        apart = abs(far - expected) / scale
        if worst is None or apart > worst[0]:
            worst = (apart, expected, far)
    return worst and dict(zip(("apart", "autograd", "numeric", "directions"), (*worst, judged), strict=True))


def padding_rows(models: Iterable[nn.Module], parameters: list[Tensor]) -> dict[int, int]:
    """Place of an embedding's weight among the parameters → its padding_idx."""
    places = {id(p): i for i, p in enumerate(parameters)}
    return {
        places[id(m.weight)]: m.padding_idx
        for model in models
        for m in model.modules()
        if isinstance(m, nn.Embedding | nn.EmbeddingBag) and m.padding_idx is not None and id(m.weight) in places
    }


def _slope(
    direction: list[Tensor], distance: float, base: Seen, *, counted: bool, warmed: bool = False
) -> Generator[Trial, Seen, tuple[float | None, Seen]]:
    """The central difference of the loss along a direction, and an iteration with autograd's gradients in its place.

    Where the loss follows a count of the iterations, five of them stand symmetrically around the one in the middle: what moves
    evenly cancels out.
    """
    there, back = (Trial(nudge=[d * way for d in direction], warmed=warmed) for way in (distance, -distance))
    first, second, middle = (yield there), (yield back), base
    up, down = [first.loss], [second.loss]
    if counted:
        middle = yield Trial(keep_gradients=True, warmed=warmed)
        third = yield back
        fourth = yield there
        up, down = [*up, fourth.loss], [*down, third.loss]
    if any(loss is None for loss in (*up, *down)):
        return None, middle
    return sum(u - d for u, d in zip(up, down, strict=True) if u is not None and d is not None) / (
        2 * distance * len(up)
    ), middle


def custom_function(function: type[torch.autograd.Function], arguments: tuple[Any, ...]) -> ProbeResult:
    """gradcheck of one autograd Function in float64, on the arguments that it was called with."""
    name, shown = "gradcheck", function.__qualname__
    given = [a.detach().to(torch.float64) if isinstance(a, Tensor) and a.is_floating_point() else a for a in arguments]
    asked = [isinstance(a, Tensor) and a.requires_grad and a.is_floating_point() for a in arguments]
    if not any(asked):
        return untried(name, "no-gradient-asked", function=shown)
    given = [g.clone().requires_grad_() if wanted else g for g, wanted in zip(given, asked, strict=True)]
    large = max(g.numel() for g, wanted in zip(given, asked, strict=True) if wanted) > 64
    if sum(g.numel() for g, wanted in zip(given, asked, strict=True) if wanted) > _MOST_ELEMENTS:
        return untried(name, "function-too-large", function=shown)
    try:
        if _is_step(function, given, asked):
            return result(name, "passed", "straight-through", function=shown)
        if (factor := _scales_gradient(function, given, asked)) is not None:
            return result(name, "passed", "gradient-scaled", function=shown, factor=factor)
        if large:
            # gradcheck's fast mode builds the whole Jacobian for its message once it fails: gigabytes of a large call
            apart = _apart_along_directions(function, given, asked)
            if apart > _WRONG:
                return result(
                    name,
                    "failed",
                    "function-wrong",
                    function=shown,
                    error=f"{apart:.3g} apart along a random direction",
                )
        else:
            gradcheck(function.apply, given, check_undefined_grad=False, nondet_tol=1e-7)
    except RuntimeError as e:
        words = " ".join(str(e).split())
        if "acobian" in words:
            return result(name, "failed", "function-wrong", function=shown, error=words[:200])
        return untried(name, "function-raised", function=shown, error=words[:200])
    except Exception as e:  # noqa: BLE001 — of the script's own code
        return untried(name, "function-raised", function=shown, error=f"{type(e).__name__}: {e}"[:200])
    return result(name, "passed", "function-right", function=shown)


def _apart_along_directions(function: type[torch.autograd.Function], given: list[Any], asked: list[bool]) -> float:
    """Largest relative difference between backward and central differences, over random directions of inputs and outputs."""
    worst = 0.0
    generator = torch.Generator().manual_seed(0)
    wanted = [g for g, a in zip(given, asked, strict=True) if a]
    for _ in range(_DIRECTIONS):
        ways = [torch.randn(g.shape, generator=generator, dtype=torch.float64).to(g.device) for g in wanted]
        several = _tensors(function.apply(*given))
        places = [i for i, o in enumerate(several) if isinstance(o, Tensor) and o.requires_grad]
        outputs = [several[i] for i in places]
        weights = [torch.randn(o.shape, generator=generator, dtype=torch.float64).to(o.device) for o in outputs]
        back: Any = torch.autograd.grad(outputs, wanted, weights, allow_unused=True)
        told = sum(_dot(b, w) for b, w in zip(back, ways, strict=True) if b is not None)
        ends: list[float] = []
        with torch.no_grad():
            for sign in (1e-6, -1e-6):
                steps = iter(ways)
                moved = [g + sign * next(steps) if a else g for g, a in zip(given, asked, strict=True)]
                several = _tensors(function.apply(*moved))
                ends.append(sum(_dot(several[i], w) for i, w in zip(places, weights, strict=True)))
        found = (ends[0] - ends[1]) / 2e-6
        worst = max(worst, abs(found - told) / max(abs(found), abs(told), 1e-12))
    return worst


def _tensors(value: Any) -> list[Any]:
    return list(value) if isinstance(value, tuple) else [value]


def _is_step(function: type[torch.autograd.Function], given: list[Any], asked: list[bool]) -> bool:
    """Whether its value does not change at all where its input does a little: rounding, sign and the like have made gradients."""
    with torch.no_grad():
        moved = [g + 1e-7 * torch.randn_like(g) if a else g for g, a in zip(given, asked, strict=True)]
        one, two = function.apply(*given), function.apply(*moved)
    first = one[0] if isinstance(one, tuple) else one
    second = two[0] if isinstance(two, tuple) else two
    return isinstance(first, Tensor) and float((first == second).float().mean()) > 0.99


def _scales_gradient(function: type[torch.autograd.Function], given: list[Any], asked: list[bool]) -> float | None:
    """The number by which a function that passes its input on multiplies the gradient, as gradient reversal does on purpose
    (Ganin & Lempitsky 2015); None for any other function, and for one that lets no gradient through."""
    wanted = [g for g, a in zip(given, asked, strict=True) if a]
    output = function.apply(*given)
    if len(wanted) != 1 or not isinstance(output, Tensor) or not torch.equal(output.detach(), wanted[0].detach()):
        return None
    weight = torch.linspace(1, 2, output.numel(), dtype=torch.float64, device=output.device).reshape(output.shape)
    (back,) = torch.autograd.grad(output, wanted, weight, materialize_grads=True)
    factor = float(back.flatten()[0] / weight.flatten()[0])
    begins = any(isinstance(g, int | float) and g == 0 for g in given)  # a strength that grows from nothing
    return (
        factor
        if factor != 1.0 and (factor != 0.0 or begins) and bool(torch.isclose(back, factor * weight, rtol=1e-6).all())
        else None
    )


def _random_like(parameter: Tensor, generator: torch.Generator) -> Tensor:
    """A direction of the size of the parameter itself; of a zero one, of the size that an initialiser would give it."""
    size = float(parameter.detach().float().pow(2).mean().sqrt()) if parameter.numel() else 0.0
    usual = 1.0 / math.sqrt(max(parameter.numel() ** 0.5, 1.0)) if size == 0 else size
    drawn = torch.randn(parameter.shape, generator=generator) * (usual if size else 0.1 * usual)
    return drawn.to(device=parameter.device, dtype=parameter.dtype)


def _dot(a: Tensor, b: Tensor) -> float:
    return float((a.double() * b.double()).sum())


ALL: dict[str, Any] = {"gradients": directional}
