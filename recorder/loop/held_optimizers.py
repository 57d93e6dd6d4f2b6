"""Which optimizers the script has: their numbers, what is known of each, and which of them are only wrapped around others."""

import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ..session.session import Session
from ..tensors.device import Late
from ..tensors.norm_parts import Norm, Share
from .weight_updates import Parameters, Sampled


class TrackedOptimizer:
    """An optimizer of the script."""

    __slots__ = (
        "began",
        "carried",
        "carried_parts",
        "grad_norm",
        "id",
        "last_step",
        "looked",
        "parameters",
        "ref",
        "sample",
        "steps",
        "zeroed",
    )

    def __init__(self, id_: int, optimizer: torch.optim.Optimizer) -> None:
        self.id = id_
        self.ref = weakref.ref(optimizer)
        self.steps = 0
        self.last_step = -1
        self.carried: float | Late | None = None
        """Norm of the gradients that were there when the first backward of this iteration began, unless cleared since."""
        self.carried_parts: dict[Share, Norm] = {}
        """Parts of that norm, where gradients are sharded."""
        self.looked = -1
        """Step in which it was looked at."""
        self.zeroed = False
        """Whether its gradients have been cleared since the last backward."""
        self.began = 0
        self.grad_norm: float | Late | None = None
        self.parameters: Parameters = []
        """Those of the step in work; empty between steps, so that nothing is kept alive."""
        self.sample: Sampled | None = None


class HeldOptimizers:
    """All optimizers that were seen, held weakly."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._all: dict[int, TrackedOptimizer] = {}
        self._count = 0

    def __bool__(self) -> bool:
        """Whether the script has any, or had."""
        return bool(self._all)

    def __iter__(self) -> Iterator[TrackedOptimizer]:
        return iter(self._all.values())

    def track(self, optimizer: torch.optim.Optimizer, *, in_step: bool) -> TrackedOptimizer:
        """The record of an optimizer that steps itself, new or known. ``in_step``: while another one steps."""
        held = self._all.get(id(optimizer))
        if held is None or held.ref() is not optimizer:
            # one that is gone may have had the same address: its place is taken, its number is not
            held = self._all[id(optimizer)] = (None if in_step else self._of_wrapper(optimizer)) or self._new(optimizer)
        return held

    def _new(self, optimizer: torch.optim.Optimizer) -> TrackedOptimizer:
        held = TrackedOptimizer(self._count, optimizer)
        self._count += 1
        self._session.rows.event(
            "optimizer-found",
            f"optimizer {held.id} is {type(optimizer).__name__}",
            detail={"optimizer_id": held.id, "class": type(optimizer).__name__},
        )
        return held

    def _of_wrapper(self, optimizer: torch.optim.Optimizer) -> TrackedOptimizer | None:
        """The record of a wrapper that was met before the optimizer inside it stepped: it is that optimizer's from now on.

        Not where the wrapper is about to step itself, as those do that look ahead or step twice.
        """
        groups = optimizer.param_groups
        for key, held in self._all.items():
            wrapper = held.ref()
            if wrapper is not None and held.steps == 0 and wrapper.param_groups is groups:
                held.ref = weakref.ref(optimizer)
                del self._all[key]
                return held
        return None

    def forget(self, is_meant: Callable[[torch.optim.Optimizer], bool]) -> None:
        """Take optimizers that have never stepped themselves off the list: nothing waits for their turn then."""
        for key, held in list(self._all.items()):
            optimizer = held.ref()
            if held.steps == 0 and optimizer is not None and is_meant(optimizer):
                del self._all[key]

    def inner(self, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        """The optimizer that steps, where a framework has wrapped it in another that shares its groups, as Lightning and
        accelerate do."""
        held = self._all.get(id(optimizer))
        if held is not None and held.ref() is optimizer:
            return optimizer
        groups = getattr(optimizer, "param_groups", None)
        return next((o for o in self.alive() if o.param_groups is groups), optimizer)

    def alive(self) -> list[torch.optim.Optimizer]:
        """Optimizers that still exist, in the order in which they were found."""
        return [optimizer for _, optimizer in self.numbered()]

    def numbered(self) -> list[tuple[int, torch.optim.Optimizer]]:
        """Those that still exist, with their numbers."""
        return [(h.id, o) for h in self if (o := h.ref()) is not None]


def closure_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The closure that a step was given; torch hands hooks the optimizer itself in front of the arguments."""
    return args[1] if len(args) > 1 else kwargs.get("closure")


def holds(optimizer: torch.optim.Optimizer, inner: torch.optim.Optimizer | None = None) -> bool:
    """Whether it makes another one step, any or this one: sharpness-aware minimization does, after a second backward."""
    return any(
        value is inner if inner is not None else isinstance(value, torch.optim.Optimizer)
        for value in vars(optimizer).values()
    )
