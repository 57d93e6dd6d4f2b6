"""How many rows of a batch are different ones."""

from collections import Counter

import torch
from torch import Tensor

from ...schemas.files.step_values import Row

_FEWEST_ELEMENTS = 4
"""Elements of a row below which equal rows are common."""

_FEWEST_ROWS = 16
_FEW = 4
"""A batch has few different rows where each occurs so often on average."""

_MOST_ELEMENTS = 1 << 24
"""Elements of a batch with few different rows that are compared in full."""

_MOST_VALUES = 1 << 16
"""Elements among which different values are counted."""


def repeated_rows(tensor: Tensor, hashes: list[int]) -> Row:
    """``distinct_rows`` and ``most_repeated`` of a batch of floats whose rows have these hashes; also ``distinct_values`` where
    the rows are few. Empty for rows of fewer than four elements, and where rows of one hash differ after all."""
    count = len(hashes)
    if not tensor.is_floating_point() or tensor.numel() < _FEWEST_ELEMENTS * count:
        return {}
    times = Counter(hashes)
    facts: Row = {"distinct_rows": len(times), "most_repeated": max(times.values())}
    if not few(facts, count):
        return facts
    if tensor.numel() > _MOST_ELEMENTS:
        return {}
    first: dict[int, int] = {}
    same = [first.setdefault(value, place) for place, value in enumerate(hashes)]
    rows = tensor.detach().reshape(count, -1)
    rows = rows if rows.dtype is torch.float64 else rows.float()
    if not torch.equal(rows, rows[torch.tensor(same, device=rows.device)]):
        return {}
    kept = rows[torch.tensor(list(first.values()), device=rows.device)].reshape(-1)
    return {**facts, "distinct_values": kept[:: max(1, kept.numel() // _MOST_VALUES)].unique().numel()}


def few(facts: Row, count: int) -> bool:
    """Whether these are the facts of a batch of so many rows that has few different ones."""
    return count >= _FEWEST_ROWS and "distinct_rows" in facts and _FEW * facts["distinct_rows"] <= count
