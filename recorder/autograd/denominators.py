"""Denominators that collapse: a quotient whose divisor becomes a thousandth of the smallest that it ever was.

A division by exactly zero is told by its result. A divisor that is tiny (a clamp to 1e-10, a window that stands still) gives a
finite number of any size. Only its own past tells tiny from ordinary, so each division of the graph is followed by its place.
"""

from typing import Any, NamedTuple

COLLAPSED = 1e-3
"""Share of the smallest earlier divisor below which a row is written: three orders of magnitude, so that rows stay few. What it
did in the step is judged by the rule."""

_HISTORY = 4
"""Looks at a division before its past says anything."""

_MOST_PLACES = 256


class Collapse(NamedTuple):
    """What a division was given before: its smallest divisor, and in how many looks."""

    least_before: float
    looks: int


class Denominators:
    """The smallest divisor so far of each division, told apart by module, order in the module and trailing shape."""

    def __init__(self) -> None:
        self._least: dict[tuple[Any, ...], tuple[float, int]] = {}
        self._order: dict[tuple[Any, ...], int] = {}

    def new_graph(self) -> None:
        """Another graph is walked from its beginning."""
        self._order.clear()

    def look(
        self, operator: str, module_id: int | None, shape: tuple[int, ...], low: float, high: float
    ) -> Collapse | None:
        """Take note of a divisor's smallest and largest element; what was before where it has collapsed.

        A divisor that has both signs passes zero as a matter of course, and is left alone.
        """
        if operator == "Div":
            least = low if low > 0 else -high if high < 0 else None
        else:  # a reciprocal: one over its result
            least = 1 / high if low > 0 and high > 0 else None
        code = (operator, module_id, shape[1:])
        order = self._order[code] = self._order.get(code, -1) + 1
        place = (*code, order)
        if least is None or (place not in self._least and len(self._least) == _MOST_PLACES):
            return None
        before, looks = self._least.get(place, (least, 0))
        self._least[place] = (min(before, least), looks + 1)
        return Collapse(before, looks) if looks >= _HISTORY and least < COLLAPSED * before else None
