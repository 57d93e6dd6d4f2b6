"""What an intervention is, and those that change what optimizers do."""

import functools
import statistics
import weakref
from collections.abc import Callable
from typing import Any

import torch
import torch.optim.optimizer as optim

from ..session.patches import Patches

_HISTORY = 64
"""Steps whose gradient norms are remembered."""


class Intervention:
    """Something that is done differently from a step on. ``now`` tells the step; ``step`` is the first one."""

    def __init__(self, now: Callable[[], int], step: int, values: dict[str, Any]) -> None:
        self.now = now
        self.step = step
        self.values = values

    @property
    def active(self) -> bool:
        """Whether it is in force."""
        return self.now() >= self.step

    def install(self, patches: Patches) -> None:
        """Put the hooks in."""
        raise NotImplementedError


class Nothing(Intervention):
    """The script as it is: does the fault come back?"""

    def install(self, patches: Patches) -> None:
        """Nothing to put in."""


class OfOptimizers(Intervention):
    """Does something right before optimizers step."""

    def install(self, patches: Patches) -> None:
        """A hook of every step."""

        def before(optimizer: torch.optim.Optimizer, *_: Any) -> None:
            self.before(optimizer)

        def after(optimizer: torch.optim.Optimizer, *_: Any) -> None:
            self.after(optimizer)

        patches.handles(
            [optim.register_optimizer_step_pre_hook(before), optim.register_optimizer_step_post_hook(after)]
        )

    def before(self, optimizer: torch.optim.Optimizer) -> None:
        """Gradients are there."""

    def after(self, optimizer: torch.optim.Optimizer) -> None:
        """Weights have been updated."""


class LrKept(OfOptimizers):
    """The learning rates of the step before."""

    def __init__(self, now: Callable[[], int], step: int, values: dict[str, Any]) -> None:
        super().__init__(now, step, values)
        self.rates: dict[tuple[int, int], Any] = {}

    def before(self, optimizer: torch.optim.Optimizer) -> None:
        """Put them in; until then remember them."""
        for i, group in enumerate(optimizer.param_groups):
            key = id(optimizer), i
            if self.active and key in self.rates:
                group["lr"] = self.rates[key]
            else:
                self.rates[key] = group["lr"]


class LrScaled(OfOptimizers):
    """Learning rates multiplied by ``factor``, for the step alone."""

    factor = 0.1

    def __init__(self, now: Callable[[], int], step: int, values: dict[str, Any]) -> None:
        super().__init__(now, step, values)
        self.own: list[Any] = []

    def before(self, optimizer: torch.optim.Optimizer) -> None:
        """Multiply."""
        if self.active:
            self.own = [group["lr"] for group in optimizer.param_groups]
            for group in optimizer.param_groups:
                group["lr"] = group["lr"] * self.factor

    def after(self, optimizer: torch.optim.Optimizer) -> None:
        """Put the script's own back: a scheduler multiplies what it finds."""
        if self.active:
            for group, rate in zip(optimizer.param_groups, self.own, strict=False):
                group["lr"] = rate


class LrTenfold(LrScaled):
    """Learning rates multiplied by ten."""

    factor = 10.0


class LrRaised(LrScaled):
    """Learning rates multiplied by a hundred."""

    factor = 100.0


class LrHeld(LrScaled):
    """Learning rates held at the largest that they have been, for the step alone."""

    def __init__(self, now: Callable[[], int], step: int, values: dict[str, Any]) -> None:
        super().__init__(now, step, values)
        self.largest: dict[tuple[int, int], Any] = {}

    def before(self, optimizer: torch.optim.Optimizer) -> None:
        """Remember the largest of each group, and put it in."""
        if self.active:
            self.own = [group["lr"] for group in optimizer.param_groups]
        for i, group in enumerate(optimizer.param_groups):
            key = id(optimizer), i
            self.largest[key] = max(self.largest.get(key, 0.0), float(group["lr"]))
            if self.active:
                group["lr"] = self.largest[key]


class Clipped(OfOptimizers):
    """Gradients clipped to the median of their norms so far, to 1 where there is no history."""

    def __init__(self, now: Callable[[], int], step: int, values: dict[str, Any]) -> None:
        super().__init__(now, step, values)
        self.norms: list[float] = []

    def before(self, optimizer: torch.optim.Optimizer) -> None:
        """Clip, or remember the norm."""
        gradients = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        if not gradients:
            return
        norm = float(torch.nn.utils.get_total_norm(gradients))
        if not self.active:
            self.norms = [*self.norms, norm][-_HISTORY:]
            return
        limit = statistics.median(self.norms) if self.norms else 1.0
        if norm > limit:
            for gradient in gradients:
                gradient.mul_(limit / norm)


class EpsLarger(OfOptimizers):
    """The optimizer's eps raised to 1e-4 at least."""

    def before(self, optimizer: torch.optim.Optimizer) -> None:
        """Raise it."""
        if self.active:
            for group in optimizer.param_groups:
                if "eps" in group:
                    group["eps"] = max(group["eps"], 1e-4)


class EpsSmaller(OfOptimizers):
    """The optimizer's eps lowered to 1e-15: what it divides by is then the second moment alone."""

    def before(self, optimizer: torch.optim.Optimizer) -> None:
        """Lower it."""
        if self.active:
            for group in optimizer.param_groups:
                if "eps" in group:
                    group["eps"] = min(group["eps"], 1e-15)


class GradientsCleared(OfOptimizers):
    """Gradients set to None after every step."""

    def after(self, optimizer: torch.optim.Optimizer) -> None:
        """Clear."""
        if self.active:
            optimizer.zero_grad(set_to_none=True)


class GradientsOfThisRound(OfOptimizers):
    """A backward begins without what other losses have left in parameters since their optimizer's last step.

    A discriminator gets gradients from its generator's loss, which are none of its own. Those of an optimizer that has not
    stepped lately stay: it may collect them on purpose.
    """

    def __init__(self, now: Callable[[], int], step: int, values: dict[str, Any]) -> None:
        super().__init__(now, step, values)
        self.stepped: weakref.WeakKeyDictionary[torch.optim.Optimizer, int] = weakref.WeakKeyDictionary()
        """Optimizer → the step in which it stepped last."""
        self.any_stepped = False

    def install(self, patches: Patches) -> None:
        """Hooks of every step, and a wrapper of backward."""
        super().install(patches)

        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def backward(*args: Any, **kwargs: Any) -> Any:
                if self.active and self.any_stepped:
                    for optimizer, step in list(self.stepped.items()):
                        if step >= self.now() - 1:
                            optimizer.zero_grad(set_to_none=True)
                self.any_stepped = False
                return original(*args, **kwargs)

            return backward

        patches.wrap(torch.autograd, "backward", wrap)

    def after(self, optimizer: torch.optim.Optimizer) -> None:
        """Remember the step."""
        self.stepped[optimizer] = self.now()
        self.any_stepped = True


class GradientsFinite(OfOptimizers):
    """Elements of gradients that are not finite set to zero, before a GradScaler looks at them."""

    def install(self, patches: Patches) -> None:
        """Hooks of every step, of an optimizer and of a scaler."""
        super().install(patches)

        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def call(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
                self.before(optimizer)
                return original(scaler, optimizer, *args, **kwargs)

            return call

        for name in ("unscale_", "step"):
            patches.wrap(torch.amp.GradScaler, name, wrap)

    def before(self, optimizer: torch.optim.Optimizer) -> None:
        """Set them to zero."""
        if self.active:
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        torch.nan_to_num_(parameter.grad, 0.0, 0.0, 0.0)


class NoWeightDecay(OfOptimizers):
    """weight_decay of 0."""

    def before(self, optimizer: torch.optim.Optimizer) -> None:
        """Take it out."""
        if self.active:
            for group in optimizer.param_groups:
                group["weight_decay"] = 0.0


class StateReset(OfOptimizers):
    """Optimizer states dropped before the first step of the intervention: moments and their counts begin again."""

    def __init__(self, now: Callable[[], int], step: int, values: dict[str, Any]) -> None:
        super().__init__(now, step, values)
        self.done: set[int] = set()

    def before(self, optimizer: torch.optim.Optimizer) -> None:
        """Drop them once."""
        if self.active and id(optimizer) not in self.done:
            self.done.add(id(optimizer))
            optimizer.state.clear()


class StateKept(OfOptimizers):
    """Optimizer states of the step before, where a parameter's is gone or begins again."""

    def __init__(self, now: Callable[[], int], step: int, values: dict[str, Any]) -> None:
        super().__init__(now, step, values)
        self.states: dict[int, dict[str, Any]] = {}
        """id of a parameter → what its optimizer knew of it after its last step."""

    def before(self, optimizer: torch.optim.Optimizer) -> None:
        """Put them in: of a new optimizer, and of one whose states were loaded or cleared."""
        if not self.active:
            return
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                known, own = self.states.get(id(parameter)), optimizer.state.get(parameter)
                if known and (not own or _counted(own) < _counted(known)):
                    optimizer.state[parameter] = _copied(known)

    def after(self, optimizer: torch.optim.Optimizer) -> None:
        """Remember them."""
        for parameter, state in optimizer.state.items():
            self.states[id(parameter)] = _copied(state)


def _counted(state: dict[str, Any]) -> float:
    return float(state.get("step", 0))


def _copied(state: dict[str, Any]) -> dict[str, Any]:
    return {key: v.detach().clone() if isinstance(v, torch.Tensor) else v for key, v in state.items()}
