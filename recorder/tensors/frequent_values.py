"""Which numbers fill the rows of a batch of tokens."""

import torch
from torch import Tensor

from ...schemas.files.step_values import Row

_MOST_ELEMENTS = 1 << 20
_LISTED = 4
"""Values that are named, the most frequent first."""


def frequent_values(tensor: Tensor) -> Row:
    """``frequent_values`` and ``frequent_shares`` of rows of int32 or int64: the values that most elements have, and their
    shares. Padding is left out: what a row repeats at its ends. Empty for other tensors, and where all is padding."""
    if tensor.dtype not in {torch.int32, torch.int64} or tensor.dim() != 2 or tensor.device.type != "cpu":
        return {}
    if tensor.shape[1] < 2 or not 0 < tensor.numel() <= _MOST_ELEMENTS:
        return {}
    rows = tensor.detach()
    inner = rows[~(_run_at_start(rows) | _run_at_start(rows.flip(1)).flip(1))]
    if not inner.numel():
        return {}
    values, counts = inner.unique(return_counts=True)
    counts, order = counts.sort(descending=True, stable=True)
    shares = (counts[:_LISTED].double() / inner.numel()).tolist()
    return {"frequent_values": values[order[:_LISTED]].tolist(), "frequent_shares": shares}


def _run_at_start(rows: Tensor) -> Tensor:
    """Elements of the run of equal values that a row begins with, where it is longer than one."""
    run = (rows == rows[:, :1]).cumprod(1).bool()
    return run & run[:, 1:2]
