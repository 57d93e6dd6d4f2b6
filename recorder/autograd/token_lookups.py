"""Lookups of tokens behind a loss, and whether attention between them and the loss looks ahead."""

from typing import Any

import torch
from torch import Tensor

from .graph import saved_tensor

_EMBEDDINGS = ("EmbeddingBackward", "EmbeddingRenormBackward")

_HIDES = -1e4
"""What is added to a score so that nothing of it is left: half precision masks with this, others with less."""


def lookups(nodes: list[Any]) -> list[tuple[Any, Tensor]]:
    """Nodes that looked up a table with indices of two dimensions, with the indices."""
    found: list[tuple[Any, Tensor]] = []
    for node in nodes:
        if type(node).__name__.startswith(_EMBEDDINGS):
            indices = saved_tensor(node, "indices")
            if indices is not None and type(indices) is Tensor and indices.dim() == 2:
                found.append((node, indices.detach()))
    return found


def alike(indices: Tensor) -> bool:
    """Whether they are the same in all rows, as positions are, or along each row, so that a shift would not show."""
    return len(indices) > 1 and bool((indices == indices[:1]).all() | (indices == indices[:, :1]).all())


def alone(nodes: list[Any], of: Tensor) -> bool:
    """Whether these tokens are the only sequence of tokens behind a loss."""
    return all(
        indices is of or (indices.shape == of.shape and torch.equal(indices, of)) or alike(indices)
        for _, indices in lookups(nodes)
    )


def attentions(nodes: list[Any]) -> tuple[int, int]:
    """How many nodes are attention, and in how many of them no query sees a later key."""
    verdicts = [verdict for node in nodes if (verdict := _looks_back_only(node)) is not None]
    return len(verdicts), sum(verdicts)


def looking_ahead(nodes: list[Any], lookup: Any, length: int) -> int:
    """How many nodes are attention of a sequence of this length over itself in which a query sees a later key: queries and keys
    are both made of what was looked up there."""
    return sum(
        _looks_back_only(node) is False
        and _extent(node) == (length, length)
        and all(_comes_from(side, lookup) for side in _sides(node))
        for node in nodes
    )


_PRODUCTS = ("BmmBackward", "MmBackward", "BaddbmmBackward")
_MOST_STEPS = 16
"""Operators between the weights of an attention and the product of queries and keys: scale, mask, dropout."""


def _sides(node: Any) -> list[Any]:
    """Where queries and keys of an attention come from."""
    if type(node).__name__.startswith("ScaledDotProduct"):
        return [n for n, _ in node.next_functions[:2]]
    for _ in range(_MOST_STEPS):
        node = next((n for n, _ in node.next_functions if n is not None), None)
        if node is None:
            break
        if type(node).__name__.startswith(_PRODUCTS):
            return [n for n, _ in node.next_functions[-2:]]
    return [None]


def _comes_from(node: Any, lookup: Any) -> bool:
    seen: set[Any] = set()
    todo = [node]
    while todo:
        node = todo.pop()
        if node is lookup:
            return True
        if node is not None and node not in seen:
            seen.add(node)
            todo.extend(n for n, _ in node.next_functions)
    return False


def _extent(node: Any) -> tuple[int, int] | None:
    """Queries and keys of an attention."""
    if type(node).__name__.startswith("ScaledDotProduct"):
        query, key = saved_tensor(node, "query"), saved_tensor(node, "key")
        return None if query is None or key is None else (query.shape[-2], key.shape[-2])
    weights = saved_tensor(node, "result")
    return None if weights is None else (weights.shape[-2], weights.shape[-1])


def _looks_back_only(node: Any) -> bool | None:
    """None where the node is no attention."""
    name = type(node).__name__
    if name.startswith("ScaledDotProduct"):
        if getattr(node, "_saved_is_causal", False):
            return True
        mask = saved_tensor(node, "attn_mask")
        mask = saved_tensor(node, "attn_bias") if mask is None else mask
        return mask is not None and _hides_what_is_later(mask.detach())
    if name in {"SoftmaxBackward0", "SafeSoftmaxBackward0"}:
        weights = saved_tensor(node, "result")
        if weights is None or weights.dim() < 3:
            return None
        return _square(weights) and _weighs_nothing_later(weights.detach().abs())
    return None


def _weighs_nothing_later(weights: Tensor) -> bool:
    """Whether no query gives weight to a later key. A padded query of which every key is hidden gives all the same."""
    ahead = _later(weights > 0).any(-1)  # NaN is not above 0: a row of it sees nothing
    hidden = weights.amax(-1) == weights.amin(-1)
    return not bool((ahead & ~hidden).any()) and not bool(hidden.all())


def _square(matrix: Tensor) -> bool:
    return matrix.dim() >= 2 and matrix.shape[-1] == matrix.shape[-2] > 1


def _later(matrix: Tensor) -> Tensor:
    return torch.triu(matrix, 1)


def _hides_what_is_later(mask: Tensor) -> bool:
    if not _square(mask):
        return False
    seen = mask if mask.dtype is torch.bool else mask > _HIDES
    return not bool(_later(seen).any())
