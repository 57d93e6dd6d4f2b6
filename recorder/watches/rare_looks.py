"""When a look that costs a walk through the graph is taken: close together at first, then ever more rarely."""

_CLOSE = 6
"""Steps that are looked at one after the other."""

_MOST_IN_A_STEP = 8


class RareLooks:
    """Says in which steps to look: some ten in a thousand, up to eight backward passes of each."""

    def __init__(self) -> None:
        self._steps = 0
        self._next = 0
        self._at = -1
        self._in_this = 0

    def due(self, step: int) -> bool:
        """Whether this backward, of this step, is looked at. Asked once for each."""
        if step >= self._next:
            self._at, self._in_this = step, 0
            self._steps += 1
            self._next = step + 1 if self._steps < _CLOSE else max(2 * step, step + _CLOSE)
        self._in_this += 1
        return step == self._at and self._in_this <= _MOST_IN_A_STEP
