"""Zeros and ones that pick rows 0 and 1 over and over, where they were meant to choose rows: ``risks[event]`` of integers."""

from typing import Any

import torch
from torch import Tensor

from ..tensors.moments import LATE_DEVICES

_FEWEST = 8
"""Rows below which indices may be zeros and ones by chance: eight draws from eight rows are in one of 65,000 cases."""


def mask_as_index(nodes: list[Any]) -> tuple[int, int] | None:
    """(rows, ones) of the first index among these nodes that is as long as what it is taken from, and holds both 0 and 1 and
    nothing else. None where there is none. PyTorch chooses rows by a boolean tensor, and takes integers for their places."""
    for node in nodes:
        if type(node).__name__ != "IndexBackward0":
            continue
        given = list(node._saved_indices)
        sizes = list(node._saved_self_sym_sizes)
        present = [(place, index) for place, index in enumerate(given) if isinstance(index, Tensor)]
        if len(present) != 1:
            continue
        (place, index), rows = present[0], sizes[present[0][0]]
        if _is_flags(index, rows) and place == 0:
            return rows, int(index.sum())
    return None


def _is_flags(index: Tensor, rows: int) -> bool:
    if index.dtype != torch.int64 or index.device.type in LATE_DEVICES or index.dim() != 1:
        return False
    if index.numel() != rows or rows < _FEWEST:
        return False
    low, high = (int(v) for v in torch.aminmax(index))
    return (low, high) == (0, 1)
