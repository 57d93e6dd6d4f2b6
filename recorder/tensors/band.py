"""A cheap look at a series of numbers while it runs: has this one left what the last ones were?

Only asked whether to measure more, never to judge: the analyzer has the whole history and decides.
"""

import math
from collections import deque

HISTORY = 16
"""Values that are looked back on."""

_LEAST = 6


class Band:
    """The range of the last values. A value leaves it where it lies further outside than the range is wide: for normal
    noise more than five standard deviations from the mean. ``least`` is the smallest width that counts, in units of the
    values; with ``logarithmic`` it is a ratio."""

    __slots__ = ("_least", "_logarithmic", "_values")

    def __init__(self, least: float, *, logarithmic: bool = False) -> None:
        self._values: deque[float] = deque(maxlen=HISTORY)
        self._least = math.log(least) if logarithmic else least
        self._logarithmic = logarithmic

    def left_by(self, value: float) -> int:
        """Where a value lies: 0 inside, 1 above or not finite, -1 below. It belongs to the history from then on."""
        if not math.isfinite(value):
            return 1
        if self._logarithmic:
            if value <= 0:
                return -1 if self._values and value == 0 else 0
            value = math.log(value)
        values = self._values
        outside = 0
        if len(values) >= _LEAST:
            low, high = min(values), max(values)
            width = max(high - low, self._least)
            outside = int(value > high + width) - int(value < low - width)
        values.append(value)
        return outside
