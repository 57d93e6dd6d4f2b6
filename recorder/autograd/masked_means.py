"""Means of a loss over all places, of which padding was set to zero before: what was left out counts in the divisor."""

from typing import Any, NamedTuple

from torch import Tensor

from .graph import MOST_OF_LOSS, saved_tensor, shape_of

_LAYS_OUT = {"ViewBackward0", "ReshapeAliasBackward0", "UnsafeViewBackward0", "CloneBackward0", "SqueezeBackward1"}
"""Operators between the product and the mean that give the same elements."""

_LARGEST = 1 << 20
"""Elements of a mask up to which it is looked at."""


class MaskedMean(NamedTuple):
    """A mean over places of which a mask leaves only some."""

    shape: list[int]
    places: int
    left_out: int
    factor: float
    """What the loss multiplies the mean by; a divisor counts as its inverse."""


def masked_mean(loss: Tensor) -> MaskedMean | None:
    """The first mean of a loss, seen from its end, whose elements were multiplied by a mask of padding: rows of ones and then
    zeros, or the other way round. None where there is none."""
    seen: set[Any] = set()
    todo: list[tuple[Any, float]] = [(loss.grad_fn, 1.0)]
    while todo and len(seen) < MOST_OF_LOSS:
        node, factor = todo.pop(0)
        if node is None or node in seen:
            continue
        seen.add(node)
        name = type(node).__name__
        if name == "MeanBackward0":
            mask = _mask_of(node.next_functions[0][0])
            if mask is not None:
                return MaskedMean(list(mask.shape), mask.numel(), int((mask == 0).sum()), factor)
            continue
        factor *= _scalar(node, name)
        todo.extend((behind, factor) for behind, _ in node.next_functions)
    return None


def _scalar(node: Any, name: str) -> float:
    """What a product or a quotient with one number multiplies by."""
    if name not in {"MulBackward0", "DivBackward0"}:
        return 1.0
    other = saved_tensor(node, "other") if node.next_functions[0][0] is not None else saved_tensor(node, "self")
    if other is None or other.numel() != 1 or other.requires_grad:
        return 1.0
    number = float(other.detach())
    return number if name == "MulBackward0" else 1 / number if number else 1.0


def _mask_of(node: Any) -> Tensor | None:
    """The mask of padding by which a product multiplies, of shape (samples, places)."""
    for _ in range(2):
        if type(node).__name__ in _LAYS_OUT:
            node = node.next_functions[0][0]
    if type(node).__name__ != "MulBackward0" or sum(behind is None for behind, _ in node.next_functions) != 1:
        return None
    mask = saved_tensor(node, "other" if node.next_functions[1][0] is None else "self")
    result = shape_of(node, 0)
    if mask is None or result is None or mask.numel() > _LARGEST or mask.requires_grad:
        return None
    mask = mask.detach()
    if mask.dim() == 3 and len(result) == 3:
        mask = mask[..., 0] if mask.shape[2] == 1 or mask.stride(2) == 0 else mask
    if mask.dim() != 2 or list(mask.shape) != result[:2] or min(mask.shape) < 2:
        return None
    ones = mask == 1
    if not bool((ones | (mask == 0)).all()):
        return None
    before, after = ones[:, :-1], ones[:, 1:]
    falls, rises = bool((before | ~after).all()), bool((~before | after).all())
    return mask if falls != rises else None
