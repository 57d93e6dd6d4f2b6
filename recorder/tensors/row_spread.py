"""How far the rows of a matrix lie apart: in what they hold, and in their directions."""

from typing import NamedTuple

import torch
from torch import Tensor

from . import native
from .device import Late, scalar_of

_ROWS = 48
_COLUMNS = 128
"""Of a larger matrix so many are looked at. The C library takes no more columns."""


class RowSpread(NamedTuple):
    """Numbers; late ones of a device, none inside a CUDA graph."""

    spread: "float | Late | None"
    """Root of the mean of the columns' variances."""
    size: "float | Late | None"
    """Root mean square of all elements."""
    directions: "float | Late | None"
    """What ``spread`` is of the rows when each has length 1, over all columns: 0 where all point one way."""


def row_spread(rows: Tensor) -> RowSpread:
    """Of a floating-point matrix."""
    sample = rows.detach()[:_ROWS, :_COLUMNS]
    if native.library is not None and (found := native.library.spread(sample)) is not None:
        spread, directions, size = found
        return RowSpread(spread, size, directions)
    with torch.no_grad():
        sample = sample.float()
        spread = torch.var(sample, 0, correction=0).mean().sqrt()
        lengths = torch.linalg.vector_norm(sample, dim=1, keepdim=True)
        size = torch.linalg.vector_norm(lengths) / sample.numel() ** 0.5
        mean = torch.linalg.vector_norm((sample / lengths.clamp_min(1e-30)).mean(0))
        directions = (1 - mean * mean).clamp_min(0).sqrt()
    return RowSpread(scalar_of(spread), scalar_of(size), scalar_of(directions))
