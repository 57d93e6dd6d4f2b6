"""What load_state_dict did to a module: which keys met, which values changed, and what is the module's own storage.

A dict that was taken from the module and kept holds the module's own tensors: it follows the training, and loading it restores
nothing. So each dict that ``state_dict()`` gives out is remembered with the step in which it was taken, as long as it lives.
"""

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
        self._compared = [name for name in self.matched if _is_comparable(self.own[name])][:_MOST_COMPARED]
        self._samples = [gather([self.own[name]]) for name in self._compared]

    def facts(self, module: nn.Module, result: Any) -> Row:
        """Columns of `checkpoints`, once it has been loaded."""
        now = own_tensors(module)
        changed = 0
        for name, before in zip(self._compared, self._samples, strict=True):
            tensor = now.get(name)
            changed += tensor is None or not _is_comparable(tensor) or not torch.equal(before, gather([tensor]))
        return {
            "matched": len(self.matched),
            "missing": len(getattr(result, "missing_keys", ())),
            "unexpected": len(getattr(result, "unexpected_keys", ())),
            "compared": len(self._compared),
            "changed": changed,
            "shared": self.shared,
        }


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
