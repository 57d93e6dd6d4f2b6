"""What measuring takes: means over the last watched steps, in which what is far from all others counts for less.

A watched step that follows unwatched ones finds nothing of the recorder in the caches and takes several times what it takes among
others like it. So the two are never mixed: where steps begin or cease to go unwatched, what was known is forgotten.
"""

from collections import deque
from collections.abc import Collection, Iterator
from statistics import fmean, median
from typing import Generic, TypeVar

Kind = TypeVar("Kind", bound=str)

_OUTLIER = 3
"""Times the median, above which a cost counts as no more: the budget is to hold on average, not after one swapped page."""

_COSTS = 7
_TIMES = 48


class KnownCosts(Generic[Kind]):
    """Nanoseconds of each kind of measurement, and of what the recorder does beside them."""

    def __init__(self) -> None:
        self._kinds: dict[Kind, deque[int]] = {}
        self._rest: deque[int] = deque(maxlen=_TIMES)
        self._cold = False
        """Whether they hold steps that follow unwatched ones, or such as follow watched ones."""

    def admits(self, cold: bool, some_go_unwatched: bool) -> bool:
        """Whether the costs of a step, which follows unwatched ones or does not, tell of those to come."""
        if cold != self._cold:
            if not cold and some_go_unwatched:
                return False
            self._cold = cold
            self._kinds.clear()
            self._rest.clear()
        return True

    def add(self, prices: dict[Kind, int], rest_ns: int) -> None:
        """What the kinds took that a step measured, and all else."""
        for kind, ns in prices.items():
            self._kinds.setdefault(kind, deque(maxlen=_COSTS)).append(max(ns, 0))
        self._rest.append(max(rest_ns, 0))

    def __len__(self) -> int:
        """Steps that the mean of the rest is made of."""
        return len(self._rest)

    def __iter__(self) -> Iterator[Kind]:
        """Kinds whose cost is known."""
        return iter(self._kinds)

    def __contains__(self, kind: object) -> bool:
        return kind in self._kinds

    def of(self, kind: Kind) -> float:
        """Mean cost of a kind, in a step that measures it."""
        return _mean(self._kinds[kind])

    @property
    def rest(self) -> float:
        """Mean cost of a watched step beside the kinds."""
        return _mean(self._rest)


def _mean(values: Collection[int]) -> float:
    """Mean, in which what is far above the others counts for less."""
    most = _OUTLIER * median(values)
    return fmean([min(value, most) for value in values])
