"""The sample of a tensor's elements on which changes and optimizer state are measured: exact for small tensors."""

from collections.abc import Sequence
from itertools import accumulate, groupby
from typing import TypeVar

import torch
from torch import Tensor

from . import native
from .measure import measure_rows
from .moments import LATE_DEVICES, Moments

SAMPLE = 1024
"""Elements per parameter: all of a small one, evenly spread over a larger one."""

_T = TypeVar("_T")

_RUN = 16
"""Neighbouring elements of a sample: 64 bytes of float32."""

_RUNS = SAMPLE // _RUN
_ACROSS = 0.854
"""Share of a row by which a run lies further along its row than the one before: 1 - 0.382 ** 2. Multiples of the golden
section spread evenly over a row, so that a border of dead pixels or a constant column does not fill the sample."""


def _spread(numel: int, width: int) -> int:
    """Elements between two runs: as far apart as the tensor allows, but never whole rows."""
    most = numel // _RUNS
    rows = (most - round(_ACROSS * width)) // width
    return most if rows < 0 else rows * width + round(_ACROSS * width)


def sample_size(tensor: Tensor) -> int:
    """Elements that ``gather`` takes of a tensor."""
    return min(tensor.numel(), SAMPLE)


def gather(tensors: Sequence[Tensor]) -> Tensor:
    """Samples of dense tensors of one device, one after the other, copied to one float vector: evenly spaced runs of a
    cache line each.

    Single elements, evenly spaced, would cost a cache line each: ten times as much.
    """
    library = native.library
    if library is not None and (sample := library.sample(tensors, SAMPLE // _RUN, _RUN)) is not None:
        return sample
    pieces: list[Tensor] = []
    for tensor in tensors:
        flat = tensor.detach().reshape(-1)
        if flat.numel() > SAMPLE:
            stride = _spread(flat.numel(), tensor.shape[-1])
            flat = flat.as_strided((_RUNS, _RUN), (stride, 1), flat.storage_offset()).reshape(-1)
        pieces.append(flat)
    joined = torch.cat(pieces)
    return joined if joined.dtype in {torch.float32, torch.float64} else joined.float()


class Sampling:
    """Which elements of a list of tensors are looked at, and where they lie in a sample: tensors of one sample size together,
    so that they can be reduced as the rows of a matrix."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self._of = list(map(sample_size, tensors))
        """Elements of each tensor, in the order of the list."""
        self.order = sorted(range(len(self._of)), key=self._of.__getitem__)
        """Place in a sample → place in the list."""
        self.sizes = [self._of[i] for i in self.order]
        """Elements of each tensor, in the order of a sample."""
        self.numel = sum(self.sizes)
        """Elements of a sample."""
        self._starts = self.sorted_back([0, *accumulate(self.sizes[:-1])][: len(self.sizes)])
        """Where the part of each tensor begins in a sample, in the order of the list."""

    def take(self, tensors: Sequence[Tensor]) -> Tensor:
        """A sample of the tensors now, in one vector. Their list is as it was when this was made."""
        return gather([tensors[i] for i in self.order])

    def measure(self, sample: Tensor) -> Sequence[Moments]:
        """Moments of each tensor's part of a sample, in the order of the list."""
        library = native.library
        if library is not None and self._of and sample.device.type not in LATE_DEVICES:
            table = library.moments_of_parts(sample, self._of, self._starts)
            if table is not None:
                return table
        found: list[Moments] = []
        start = 0
        for size, members in groupby(self.sizes):
            count = len(list(members))
            found += measure_rows(sample[start : start + size * count].view(count, size))
            start += size * count
        return self.sorted_back(found)

    def sorted_back(self, found: Sequence[_T]) -> list[_T]:
        """What was found for each part of a sample, in the order of the list."""
        by_place = dict(zip(self.order, found, strict=True))
        return [by_place[i] for i in range(len(by_place))]
