"""Cross entropies written out by hand whose softmax is taken over another dimension than that of the soft targets:
``-(log_softmax(scores, 1) * targets).sum(-1)`` of scores that have three dimensions."""

from typing import Any

from torch import Tensor

from .graph import saved_tensor, shape_of

_NEAR = 8
"""Operators between a loss and the sum over classes."""

_MOST_NODES = 64
_LARGEST = 1 << 22
"""Elements of the targets up to which they are looked at."""

_ROUNDING = 1e-3
"""How far sums of probabilities may lie from 1: convention of this project, rounding of half precision."""


def softmax_beside_targets(loss: Tensor) -> tuple[int, int, list[int]] | None:
    """(dimension of the softmax, that over which targets sum to 1, shape) of the first such term; None where there is none."""
    level: list[Any] = [loss.grad_fn]
    seen = 0
    for _ in range(_NEAR):
        level = [node for node in level if node is not None][: _MOST_NODES - seen]
        seen += len(level)
        for node in level:
            if type(node).__name__ == "SumBackward1" and (found := _of_sum(node)) is not None:
                return found
        level = [behind for node in level for behind, _ in node.next_functions[:4]]
    return None


def _of_sum(node: Any) -> tuple[int, int, list[int]] | None:
    product, place = node.next_functions[0]
    if type(product).__name__ == "NegBackward0":
        product, place = product.next_functions[0]
    if type(product).__name__ != "MulBackward0" or not (shape := shape_of(product, place)):
        return None
    for side, name in ((0, "other"), (1, "self")):
        factor = product.next_functions[side][0]
        targets = saved_tensor(product, name)
        summed = [_signed(d) % len(shape) for d in node._saved_dim]
        if type(factor).__name__ != "LogSoftmaxBackward0" or targets is None or len(summed) != 1:
            continue
        taken = _signed(factor._saved_dim) % len(shape)
        if taken != summed[0] and list(targets.shape) == shape and _are_probabilities(targets.detach(), summed[0]):
            return taken, summed[0], shape
    return None


def _signed(dimension: int) -> int:
    return dimension - (1 << 64) if dimension >= 1 << 63 else dimension


def _are_probabilities(targets: Tensor, dimension: int) -> bool:
    """Whether they sum to 1 over a dimension of several classes."""
    if not targets.is_floating_point() or targets.shape[dimension] < 2 or not 0 < targets.numel() <= _LARGEST:
        return False
    sums = targets.float().sum(dimension)
    return bool((targets >= 0).all()) and bool(((sums - 1).abs() <= _ROUNDING).all())
