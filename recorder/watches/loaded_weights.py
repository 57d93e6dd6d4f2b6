"""What load_state_dict did to a module: which keys met, which values changed, and what is the module's own storage.

A dict that was taken from the module and kept holds the module's own tensors: it follows the training, and loading it restores
nothing. So each dict that ``state_dict()`` gives out is remembered with the step in which it was taken, as long as it lives.
"""

import weakref
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ...schemas.files.step_values import Row
from ..base.identity_map import IdentityMap
from ..tensors.element_sample import gather
from ..tensors.moments import measurable

_MOST_COMPARED = 512
"""Tensors of which a sample is compared before and after."""

_FEWEST = 64
"""Elements of a sample from which a correlation says something: by chance it is below 0.3 in 98 of 100."""

_UNLIKE = 0.3
"""Correlation up to which two weights have nothing of each other. Scaling, rounding, noise and training leave more."""


class TakenStates:
    """The steps in which state dicts were taken."""

    def __init__(self) -> None:
        self._steps: IdentityMap[Any, int] = IdentityMap()

    def note(self, state: Any, step: int) -> None:
        """Remember when a module gave out its state."""
        self._steps[state] = step

    def step_of(self, state: Any) -> int | None:
        """The step in which a state dict was taken; None where another was made of it, or it was read from a file."""
        return self._steps.get(state)


class Before:
    """A module's tensors before something is loaded into it."""

    def __init__(self, module: nn.Module, state: Any) -> None:
        self.own = own_tensors(module)
        self.matched = [name for name in self.own if name in state] if isinstance(state, Mapping) else []
        self.shared = sum(_is_same_memory(self.own[name], state[name]) for name in self.matched)
        self.compared = [name for name in self.matched if _is_comparable(self.own[name])][:_MOST_COMPARED]
        self.samples = [gather([self.own[name]]) for name in self.compared]

    def facts(self, module: nn.Module, result: Any) -> Row:
        """Columns of `checkpoints`, once it has been loaded."""
        now, changed = own_tensors(module), 0
        for place, (name, before) in enumerate(zip(self.compared, self.samples, strict=True)):
            tensor = now.get(name)
            after = gather([tensor]) if tensor is not None and _is_comparable(tensor) else None
            changed += after is None or not torch.equal(before, after)
            if after is not None:
                self.samples[place] = after
        return {
            "matched": len(self.matched),
            "missing": len(getattr(result, "missing_keys", ())),
            "unexpected": len(getattr(result, "unexpected_keys", ())),
            "compared": len(self.compared),
            "changed": changed,
            "shared": self.shared,
        }


class NotYetUsed:
    """Weights that were loaded and have not been trained since: what is still there of them when they are."""

    def __init__(self) -> None:
        self._loads: list[tuple[weakref.ref[nn.Module], dict[str, Tensor], Row]] = []

    def note(self, module: nn.Module, loaded: Before, row: Row) -> None:
        """These were put into a module just now; ``row`` tells it. What was loaded into the same weights before is void."""
        own = own_tensors(module)
        replaced = {tensor.data_ptr() for tensor in own.values()}
        for ref, samples, _ in self._loads:
            if (other := ref()) is not None:
                for name, tensor in own_tensors(other).items():
                    if tensor.data_ptr() in replaced:
                        samples.pop(name, None)
        samples = {
            name: sample
            for name, sample in zip(loaded.compared, loaded.samples, strict=True)
            if name in own and own[name].dim() >= 2 and sample.numel() >= _FEWEST
        }
        self._loads.append((weakref.ref(module), samples, row))

    def used(self) -> None:
        """An optimizer is about to step: say in the row of each load how much of it has been written over."""
        loads, self._loads = self._loads, []
        for ref, samples, row in loads:
            module = ref()
            if module is None or not samples:
                continue
            now = own_tensors(module)
            kept = [name for name in samples if name in now and _is_comparable(now[name])]
            others = [name for name in kept if _unlike(samples[name], gather([now[name]]))]
            row |= {"matrices": len(kept), "overwritten": len(others), "overwritten_weight": next(iter(others), None)}


def _unlike(before: Tensor, now: Tensor) -> bool:
    """Whether two samples of a weight have nothing of each other."""
    if before.shape != now.shape or torch.equal(before, now):
        return before.shape != now.shape
    a, b = before.double() - before.double().mean(), now.double() - now.double().mean()
    size = float(a.norm() * b.norm())
    return size > 0 and abs(float(a @ b)) < _UNLIKE * size


def own_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers by the names that a state dict gives them, without asking for one: that runs hooks."""
    return dict(module.named_parameters(remove_duplicate=False)) | dict(module.named_buffers(remove_duplicate=False))


def _is_comparable(tensor: Tensor) -> bool:
    return (
        measurable(tensor)
        and tensor.is_cpu  # a comparison elsewhere would wait for the device
        and tensor.layout is torch.strided
        and tensor.is_floating_point()
        and tensor.numel() > 0
    )


def _is_same_memory(own: Tensor, given: Any) -> bool:
    return (
        isinstance(given, Tensor)
        and all(measurable(t) and t.layout is torch.strided and t.numel() for t in (own, given))
        and own.data_ptr() == given.data_ptr()
    )
