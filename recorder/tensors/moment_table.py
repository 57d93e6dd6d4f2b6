"""Moments of many tensors as the C library has written them: read column by column, without an object for each."""

import math
from array import array
from collections.abc import Iterator, Sequence
from typing import Any, overload

from .moments import Moments

_WIDTH = 8
"""Numbers of 8 bytes for each tensor: four counts and four sums or extremes, in the order of Moments."""


class MomentTable(Sequence[Moments]):
    """A sequence of moments. A loop over it makes them; ``columns`` does not."""

    __slots__ = ("_bytes", "_counts", "_numbers")

    def __init__(self, count: int) -> None:
        self._bytes = array("q", bytes(_WIDTH * 8 * count))
        self._counts = memoryview(self._bytes)
        self._numbers = self._counts.cast("B").cast("d")

    @property
    def address(self) -> int:
        """Where the library writes."""
        return self._bytes.buffer_info()[0]

    def columns(self) -> list[list[Any]]:
        """All numel, all nan_count and so on, as in Moments."""
        counts = [self._counts[i::_WIDTH].tolist() for i in range(4)]
        numbers: list[list[Any]] = [self._numbers[i::_WIDTH].tolist() for i in range(4, _WIDTH)]
        numel, nan, infinite, _ = counts
        if any(nan) or any(infinite) or 0 in numel:
            for i, (n, a, b) in enumerate(zip(numel, nan, infinite, strict=True)):
                if n == a + b:  # nothing finite has extremes
                    numbers[0][i] = numbers[1][i] = None
        return [*counts, *numbers]

    @property
    def norm(self) -> float:
        """Common L2 norm of all of them; NaN or infinite where one of them is."""
        if any(self._counts[1::_WIDTH]):
            return math.nan
        return math.inf if any(self._counts[2::_WIDTH]) else math.sqrt(sum(self._numbers[7::_WIDTH]))

    def __len__(self) -> int:
        return len(self._bytes) // _WIDTH

    @overload
    def __getitem__(self, place: int) -> Moments: ...
    @overload
    def __getitem__(self, place: slice) -> list[Moments]: ...
    def __getitem__(self, place: int | slice) -> Moments | list[Moments]:
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        start = range(len(self))[place] * _WIDTH
        numel, nan, infinite, zero = self._counts[start : start + 4]
        low, high, total, squares = self._numbers[start + 4 : start + _WIDTH]
        empty = numel == nan + infinite
        return Moments(numel, nan, infinite, zero, None if empty else low, None if empty else high, total, squares)

    def __iter__(self) -> Iterator[Moments]:
        return map(Moments, *self.columns()) if len(self) else iter(())
