"""Find parts of a model that began as copies of other parts: the target of BYOL, the momentum encoder of MoCo, a teacher.

Both are modules of one class whose parameters have the same names and shapes. One is trained and the other is not, and their
weights were equal at the beginning. Frozen layers beside trained ones of the same shape differ from the start.
"""

from collections.abc import Container, Hashable, Iterator

import torch
from torch import Tensor, nn

from ..tensors.moments import measurable

_NEAR = 0.5
"""Distance of two sets of weights, as a share of their size, below which one was copied from the other a few steps ago: of
two random ones it is about 1.4."""

_MOST_ALIKE = 16
"""Modules of one kind that a copy is compared with: a model may have hundreds of layers of one shape."""

_WEIGHTS = 4
_ELEMENTS = 256

Pairs = list[tuple[Tensor, Tensor]]


def is_trained(module: nn.Module, held: Container[Tensor]) -> bool:
    """Whether an optimizer changes any of its parameters; ``held``: the parameters that optimizers hold."""
    return any(p.requires_grad and p in held for p in module.parameters())


def untrained_parts(model: nn.Module, held: Container[Tensor]) -> Iterator[tuple[str, nn.Module]]:
    """(dotted name, module) of the outermost submodules with weights of which nothing is trained."""
    if all(p.requires_grad and p in held for p in model.parameters()):
        return
    inside: set[int] = set()
    for name, module in model.named_modules():
        if id(module) in inside or module is model:
            continue
        if next(module.parameters(), None) is not None and not is_trained(module, held):
            inside.update(map(id, module.modules()))
            yield name, module


class TrainedParts:
    """The trained submodules of a model, to be found by what a copy of them has in common with them."""

    def __init__(self, model: nn.Module, held: Container[Tensor]) -> None:
        self._alike: dict[Hashable, list[tuple[str, nn.Module]]] = {}
        for name, module in model.named_modules():
            if module is not model and is_trained(module, held):
                self._alike.setdefault(_kind(module), []).append((name, module))

    def original_of(self, copy: nn.Module) -> tuple[str, Pairs] | None:
        """The one that ``copy`` has just been copied from, as (dotted name, (its tensor, the model's) tensors); None where there
        is none."""
        for name, module in self._alike.get(_kind(copy), [])[:_MOST_ALIKE]:
            pairs: Pairs = list(zip(copy.parameters(), module.parameters(), strict=True))
            if module is not copy and _are_near(pairs):
                return name, pairs
        return None


def _kind(module: nn.Module) -> Hashable:
    return type(module), tuple((name, p.shape) for name, p in module.named_parameters())


def _are_near(pairs: Pairs) -> bool:
    """Whether a few weights say so; vectors do not, since many begin as ones or zeros."""
    weights = [(a, b) for a, b in pairs if a.dim() > 1 and a is not b and a.device == b.device and a.numel()]
    told = 0
    for theirs, ours in weights[:: max(1, len(weights) // _WEIGHTS)]:
        if not all(measurable(t) and t.is_contiguous() and t.is_floating_point() for t in (theirs, ours)):
            continue
        a, b = (t.detach().view(-1)[:_ELEMENTS].double() for t in (theirs, ours))
        size = float(torch.linalg.vector_norm(b - b.mean()))
        if not size or float(torch.linalg.vector_norm(a - b)) > _NEAR * size:
            return False
        told += 1
    return told > 0
