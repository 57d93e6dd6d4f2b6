"""Lookups of tokens behind a loss, and whether attention between them and the loss looks ahead."""

from typing import Any

import torch
from torch import Tensor

from .graph import saved

_EMBEDDINGS = ("EmbeddingBackward", "EmbeddingRenormBackward")

_HIDES = -1e4
"""What is added to a score so that nothing of it is left: half precision masks with this, others with less."""


def lookups(nodes: list[Any], numel: int) -> list[tuple[Any, Tensor]]:
    """Nodes that looked up a table with so many indices of two dimensions, with the indices."""
    found: list[tuple[Any, Tensor]] = []
    for node in nodes:
        if type(node).__name__.startswith(_EMBEDDINGS):
            indices = saved(node, "indices")
            if indices is not None and type(indices) is Tensor and indices.dim() == 2 and indices.numel() == numel:
                found.append((node, indices.detach()))
    return found


def attentions(nodes: list[Any]) -> tuple[int, int]:
    """How many nodes are attention, and in how many of them no query sees a later key."""
    verdicts = [verdict for node in nodes if (verdict := _looks_back_only(node)) is not None]
    return len(verdicts), sum(verdicts)


def _looks_back_only(node: Any) -> bool | None:
    """None where the node is no attention."""
    name = type(node).__name__
    if name.startswith("ScaledDotProduct"):
        if getattr(node, "_saved_is_causal", False):
            return True
        mask = saved(node, "attn_mask")
        mask = saved(node, "attn_bias") if mask is None else mask
        return mask is not None and _hides_what_is_later(mask.detach())
    if name in {"SoftmaxBackward0", "SafeSoftmaxBackward0"}:
        weights = saved(node, "result")
        if weights is None or weights.dim() < 3:
            return None
        return _square(weights) and not bool(_later(weights.detach() != 0).any())
    return None


def _square(matrix: Tensor) -> bool:
    return matrix.dim() >= 2 and matrix.shape[-1] == matrix.shape[-2] > 1


def _later(matrix: Tensor) -> Tensor:
    return torch.triu(matrix, 1)


def _hides_what_is_later(mask: Tensor) -> bool:
    if not _square(mask):
        return False
    seen = mask if mask.dtype is torch.bool else mask > _HIDES
    return not bool(_later(seen).any())
