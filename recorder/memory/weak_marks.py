"""Things of earlier steps that may still be held: how many there are, at a cost that does not grow with their number."""

import weakref
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator
from itertools import chain
from typing import Any, Generic, Protocol, TypeVar

_RECENT = 64
"""Steps for which all are looked at in every step."""

_LOOKED_AT = 128
"""Older ones that are looked at in a step, in turn: where there are more, one that has gone is missed by some steps later."""

_MOST_MARKS = 100_000


class Mark:
    """Dies with what carries it."""

    __slots__ = ("__weakref__",)


def leave(mark: Mark, node: Any, name: str) -> None:
    """Put a mark into autograd's own notes of a node: it dies with the node."""
    node.metadata[f"firstfault.{name}"] = mark


class Marks:
    """Marks that are alive, counted as they die."""

    def __init__(self) -> None:
        self._steps: dict[weakref.ref[Mark], int] = {}
        self._recent: list[weakref.ref[Mark]] = []

    def add(self, step: int) -> Mark:
        """A new one, to be held by what is followed."""
        mark = Mark()
        if len(self._steps) < _MOST_MARKS:
            ref = weakref.ref(mark, self._died)
            self._steps[ref] = step
            self._recent.append(ref)
        return mark

    def before(self, step: int) -> int:
        """How many are alive of those that were made before this step."""
        steps = self._steps
        self._recent = [ref for ref in self._recent if steps.get(ref, -1) >= step]
        return len(steps) - len(self._recent)

    def _died(self, ref: weakref.ref[Mark]) -> None:
        self._steps.pop(ref, None)


class Followable(Protocol):
    """What can be followed."""

    @property
    def step(self) -> int:
        """In which it was made."""
        ...

    def alive(self) -> bool:
        """Whether anything of it is still there."""
        ...


H = TypeVar("H", bound=Followable)
K = TypeVar("K", bound=Hashable)


class Followed(Generic[H, K]):
    """Things in the order of their steps, and what they count for together."""

    def __init__(self, counts: Callable[[list[H]], Counter[K]], gone: Callable[[list[H]], None] | None = None) -> None:
        self._counts_of = counts
        self._gone = gone
        self._recent: list[H] = []
        self._old: deque[tuple[list[H], Counter[K]]] = deque()
        """Parts of as many as are looked at in a step, and what they counted for when they were; what is next in turn first."""
        self._old_counts: Counter[K] = Counter()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[H]:
        return chain(chain.from_iterable(part for part, _ in self._old), self._recent)

    def add(self, held: H) -> None:
        """To be followed from now on."""
        self._recent.append(held)
        self._size += 1

    def before(self, step: int) -> Counter[K]:
        """What those count for together that were made before this step and were alive when they were last looked at."""
        self._recent = self._living(self._recent)
        if self._old:
            part, counts = self._old.popleft()
            self._old_counts.subtract(counts)
            self._put_by(self._living(part))
        if len(self._recent) >= _LOOKED_AT and self._recent[_LOOKED_AT - 1].step < step - _RECENT:
            self._put_by(self._recent[:_LOOKED_AT])
            del self._recent[:_LOOKED_AT]
        recent = self._counts_of([held for held in self._recent if held.step < step])
        return self._old_counts + recent if self._old else recent

    def _put_by(self, part: list[H]) -> None:
        if part:
            counts = self._counts_of(part)
            self._old_counts.update(counts)
            self._old.append((part, counts))

    def _living(self, held: list[H]) -> list[H]:
        alive = [h for h in held if h.alive()]
        if len(alive) < len(held):
            self._size -= len(held) - len(alive)
            if self._gone is not None:
                kept = set(map(id, alive))
                self._gone([h for h in held if id(h) not in kept])
        return alive
