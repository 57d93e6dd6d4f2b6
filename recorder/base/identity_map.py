"""A mapping by identity that never answers for a dead object.

CPython gives the address of an object that is gone to the next one, so ``id()`` alone names nothing.
"""

import weakref
from collections.abc import Iterator
from typing import Generic, TypeVar, overload

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")


class IdentityMap(Generic[K, V]):
    """Values of objects that can be weakly referenced. Keeps no object alive; an entry goes when its object does."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[int, tuple[weakref.ref[K], V]] = {}

    def __setitem__(self, key: K, value: V) -> None:
        entries, number = self._entries, id(key)

        def gone(ref: "weakref.ref[K]") -> None:
            found = entries.get(number)
            if found is not None and found[0] is ref:  # not one that has the address now
                del entries[number]

        entries[number] = weakref.ref(key, gone), value

    @overload
    def get(self, key: K) -> V | None: ...
    @overload
    def get(self, key: K, default: D) -> V | D: ...
    def get(self, key: K, default: D | None = None) -> V | D | None:
        """The value of an object, the default if it has none."""
        found = self._entries.get(id(key))
        return default if found is None or found[0]() is not key else found[1]

    def __getitem__(self, key: K) -> V:
        found = self._entries.get(id(key))
        if found is None or found[0]() is not key:
            raise KeyError(key)
        return found[1]

    def __contains__(self, key: object) -> bool:
        found = self._entries.get(id(key))
        return found is not None and found[0]() is key

    def __len__(self) -> int:
        return len(self._entries)

    def pop(self, key: K) -> None:
        """Forget an object, known or not."""
        if key in self:
            del self._entries[id(key)]

    def values(self) -> Iterator[V]:
        """The values of objects that are alive."""
        return iter([value for _, value in list(self._entries.values())])
