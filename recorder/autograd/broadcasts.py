"""Shapes that broadcast in the code of a loss, so that each sample of a batch meets all others."""

from typing import Any, NamedTuple

from torch import Tensor

from ..tensors.moments import LATE_DEVICES
from .graph import saved_tensor, shape_of

_COMPARES = {"SubBackward0", "RsubBackward0", "MseLossBackward0", "SmoothL1LossBackward0", "HuberLossBackward0"}
"""A loss function expands both sides first; l1_loss then subtracts."""

_ADDS_UP = {"MeanBackward0", "SumBackward0"}

_KEEPS_PLACES = {"NegBackward0", "MulBackward0", "MinimumBackward0", "ClampBackward0", "ClampBackward1"}

_MOST_PAIRS = 1 << 18
"""Elements of a square of weights up to which it is looked at."""

_ROUNDING = 1e-5
"""Share of the largest weight: below it, differences of differences are rounding."""


class Broadcast(NamedTuple):
    """What was stretched: ``prediction``, or ``weighted`` for numbers that are multiplied by weights."""

    what: str
    given: list[int]
    result: list[int]


def broadcast_in_loss(nodes: list[Any]) -> Broadcast | None:
    """Shapes of a prediction and of the result of a subtraction in the loss code that stretched it against the target:
    (N, 1) and (N, N). Or of a product that stretched N numbers against a column of N weights, or a column of them against N
    weights. None where there is none. ``nodes`` are those of the loss code, in forward order."""
    for node in nodes:
        if type(node).__name__ == "MulBackward0":
            if found := _stretched_by_weights(node, nodes):
                return found
            continue
        if type(node).__name__ not in _COMPARES:
            continue
        # what is compared with another of the model's own (its norm, its mean, all pairs) is so on purpose: a target has no graph
        operands = [(behind, place) for behind, place in node.next_functions if behind is not None]
        if len(operands) != 1:
            continue
        behind, place = operands[0]
        result = shape_of(node, 0)
        if type(behind).__name__ == "ExpandBackward0":
            result, (behind, place) = shape_of(behind, 0), behind.next_functions[0]
        given = shape_of(behind, place) if behind is not None else None
        if given is not None and result is not None and _stretched(given, result):
            return Broadcast("prediction", given, result)
    return None


def _stretched_by_weights(node: Any, nodes: list[Any]) -> Broadcast | None:
    """Shapes of N numbers with a graph and of their product with weights without one, which is (N, N): a column (N, 1), or what
    came of a column and a row before. Or of a column of numbers and N weights, where the product is at once made one number."""
    sides = node.next_functions
    if len(sides) != 2 or (sides[0][0] is None) == (sides[1][0] is None):
        return None
    (behind, place), name = (sides[0], "other") if sides[1][0] is None else (sides[1], "self")
    given, result = shape_of(behind, place), shape_of(node, 0)
    if given is None or result is None or not _stretched(given, result):
        return None
    weights = saved_tensor(node, name)
    if weights is None:
        return None
    if len(given) == 1:
        stretches = list(weights.shape) == [result[0], 1] or _column_and_row(weights)
    else:
        learnt = type(behind).__name__ != "AccumulateGrad"  # coordinates times frequencies, or a table of scales
        stretches = learnt and given[1] == 1 and list(weights.shape) == [result[0]] and _only_added_up(node, nodes)
    return Broadcast("weighted", given, result) if stretches else None


def _only_added_up(node: Any, nodes: list[Any]) -> bool:
    """Whether a result goes nowhere but into one number: products that are wanted for all pairs are used as pairs."""
    users: dict[Any, list[Any]] = {}
    for user in nodes:
        for behind, _ in user.next_functions:
            users.setdefault(behind, []).append(user)
    while len(using := users.get(node, ())) == 1:
        node = using[0]
        if type(node).__name__ in _ADDS_UP:
            return shape_of(node, 0) == []
        if type(node).__name__ not in _KEEPS_PLACES:
            return False
    return False


def _column_and_row(weights: Tensor) -> bool:
    """Whether a square of weights is a sum of a column and a row. Differences of all pairs of one row are so on purpose."""
    if weights.dim() != 2 or weights.numel() > _MOST_PAIRS or not weights.is_floating_point():
        return False
    if weights.device.type in LATE_DEVICES:
        return False  # looking at it makes the host wait
    weights = weights.detach()
    rounding = _ROUNDING * weights.abs().max()
    down = weights - weights[:1]
    differ = down.abs().max() > rounding
    alike = (down - down[:, :1]).abs().max() <= rounding
    pairs = (weights + weights.T).abs().max() <= rounding
    return bool(differ & alike & ~pairs)


def _stretched(given: list[int], result: list[int]) -> bool:
    """(N, 1) or (N,) against the other became (N, N), or a map (N, H, W) against (N, H, W, 1) became (N, N, H, W): the batch was
    set against itself."""
    if len(given) > 1 and given[0] > 1 and result == [given[0], *given]:
        return True
    if len(result) != 2 or result[0] != result[1] or result[0] < 2:
        return False
    return given in ([result[0], 1], [result[0]], [1, result[0]])
