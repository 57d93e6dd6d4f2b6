"""What a number of a loss is a sum of: values that came out of something with a graph, each with its sign and its factor."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from torch import Tensor

from ..tensors.moments import LATE_DEVICES
from .graph import dimension, saved_tensor
from .graph import operator_name as any_name

_LAYS_OUT = {
    "Squeeze", "Unsqueeze", "View", "UnsafeView", "ReshapeAlias", "Transpose", "Permute", "T", "Slice", "Clone",
    "ToCopy", "Alias", "Expand", "Mean", "MaskedFill",
}  # fmt: skip
"""Operators whose result is their input in another shape, or a part or mean of it."""

_MOST_PARTS = 16
_MOST_OPERATORS = 128
_FEW = 4
"""Members of a stack that are looked at."""

_COMPARES = {"MseLoss", "SmoothL1Loss", "HuberLoss"}
_MOST_OF_LOSS = 256


class Part(NamedTuple):
    """A value in a sum. ``low`` and ``high`` are the range of its factor, where one is known; ``scaled`` whether it has one.
    ``placed``: it was written into places of another tensor."""

    node: Any
    sign: int
    scaled: bool = False
    low: float | None = None
    high: float | None = None
    placed: bool = False


class Parts(NamedTuple):
    """Values that a sum is made of, and whether numbers without a graph are among them."""

    values: list[Part]
    constant: bool


def operator_name(node: Any) -> str:
    """Name of one of torch's own operators; none for a function of the script's own, which may have the same."""
    kind = type(node).__name__
    return any_name(node) if kind[-1].isdigit() or kind == "CopySlices" else ""


def parts_of(*starts: Part) -> Parts:
    """What the sum of these values is made of, as far as so many parts of it."""
    found: list[Part] = []
    constant = False
    todo = list(starts)
    for _ in range(_MOST_OPERATORS):
        if not todo or len(found) >= _MOST_PARTS:
            break
        part = todo.pop(0)
        if part.node is None:
            constant = True
            continue
        behind = _behind(part)
        if behind is None:
            found.append(part)
        else:
            todo.extend(behind)
    return Parts(found, constant)


def _behind(part: Part) -> list[Part] | None:
    """The parts of a part; None where it is none but itself."""
    node = part.node
    name = operator_name(node)
    behind = [n for n, _ in node.next_functions]
    if not behind:
        return None
    first, second = behind[0], behind[1] if len(behind) > 1 else None
    if name in _LAYS_OUT or (name == "Select" and _only_one(node)):
        return [part._replace(node=first)]
    if name == "Neg":
        return [part._replace(node=first, sign=-part.sign)]
    if name in {"Add", "Sub"}:
        sign = part.sign if name == "Add" else -part.sign
        other = part._replace(node=second, sign=sign)
        alpha = getattr(node, "_saved_alpha", 1)
        return [part._replace(node=first), other if alpha == 1 or second is None else _times(other, alpha, alpha)]
    if name == "Rsub":
        return [part._replace(node=first, sign=-part.sign), part._replace(node=second)]
    if name in {"Mul", "Div"}:
        return _product(part, name, first, second)
    if name == "Where" and (first is None) != (second is None):
        return [part._replace(node=first or second), part._replace(node=None)]
    if name in {"IndexPut", "CopySlices"}:
        return [part._replace(node=first) if second is None else part._replace(node=second, placed=True)]
    if name in {"Stack", "Cat"}:
        return [part._replace(node=n) for n in behind[:_FEW]]
    return None


def _product(part: Part, name: str, first: Any, second: Any) -> list[Part] | None:
    """What is multiplied or divided by numbers without a graph. A division by a spread of itself is a normalisation."""
    if first is not None and second is not None:
        return [_times(part._replace(node=first), None, None)] if name == "Div" else None
    if name == "Div" and first is None:
        return None
    factor = saved_tensor(part.node, "self" if first is None else "other")
    low = high = None
    if factor is not None and factor.numel() and factor.device.type not in LATE_DEVICES:
        low, high = float(factor.detach().min()), float(factor.detach().max())
        if name == "Div":
            low, high = (1 / high, 1 / low) if low * high > 0 else (None, None)
    return [_times(part._replace(node=first or second), low, high)]


def _times(part: Part, low: float | None, high: float | None) -> Part:
    if low is None or high is None:
        return part._replace(scaled=True)
    if high < 0:
        return _times(part._replace(sign=-part.sign), -high, -low)
    if low < 0 or part.low is None or part.high is None:
        return part._replace(scaled=True, low=low, high=high)
    return part._replace(scaled=True, low=part.low * low, high=part.high * high)


def _only_one(node: Any) -> bool:
    """Whether a selection had nothing to select from."""
    sizes = node._saved_self_sym_sizes
    return sizes[dimension(node._saved_dim, len(sizes))] == 1


def operators_of_loss(loss: Tensor) -> Iterator[Any]:
    """Operators that a loss is put together with, breadth first, as far as so many. Behind an error nothing is looked at."""
    seen: set[Any] = set()
    level = [loss.grad_fn]
    while level and len(seen) < _MOST_OF_LOSS:
        following = []
        for node in level:
            if node is None or node in seen:
                continue
            seen.add(node)
            yield node
            if error_of(node) is None:
                following += [n for n, _ in node.next_functions[: 2 * _FEW]]
        level = following


def error_of(node: Any) -> tuple[Part, ...] | None:
    """The two sides of an error that is squared or made absolute, or their difference; None where the operator is another."""
    name = operator_name(node)
    behind = [n for n, _ in node.next_functions]
    if name in _COMPARES:
        return Part(behind[0], 1), Part(behind[1], -1)
    if (name == "Pow" and getattr(node, "_saved_exponent", 0) == 2) or name == "Abs":
        return (Part(behind[0], 1),)
    if name == "Mul" and len(behind) == 2 and behind[0] is not None and behind[0] is behind[1]:
        return (Part(behind[0], 1),)
    return None
