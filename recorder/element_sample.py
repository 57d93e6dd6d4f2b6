"""The sample of a tensor's elements on which changes and optimizer state are measured: exact for small tensors."""

from collections.abc import Sequence

import torch
from torch import Tensor

SAMPLE = 1024
"""Elements per parameter: all of a small one, evenly spread over a larger one."""

_RUN = 16
"""Neighbouring elements of a sample: 64 bytes of float32."""


def sample_size(tensor: Tensor) -> int:
    """Elements that ``gather`` takes of a tensor."""
    return min(tensor.numel(), SAMPLE)


def gather(tensors: Sequence[Tensor]) -> Tensor:
    """Samples of dense tensors of one device, one after the other, copied to one float vector: evenly spaced runs of a
    cache line each.

    Single elements, evenly spaced, would cost a cache line each: ten times as much.
    """
    pieces: list[Tensor] = []
    for tensor in tensors:
        flat = tensor.detach().reshape(-1)
        if flat.numel() > SAMPLE:
            runs = SAMPLE // _RUN
            flat = flat.as_strided((runs, _RUN), (flat.numel() // runs, 1), flat.storage_offset()).reshape(-1)
        pieces.append(flat)
    joined = torch.cat(pieces)
    return joined if joined.dtype in {torch.float32, torch.float64} else joined.float()
