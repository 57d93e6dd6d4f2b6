"""Buffers whose entries are all one and the same object: what was stored is overwritten by what comes next.

Looked for only once batches have had few different rows several times; a run without such batches pays for no look. A look goes
over all lists and queues that the garbage collector knows. What it finds counts where a second look, some steps later, finds
more entries in it and other content.
"""

import gc
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..loop.batches import DataWatch, fingerprint
from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Watch
from ..tensors.moments import LATE_DEVICES, measurable
from .owners import OURS, Holder, holders_of

_BATCHES = 8
"""Batches of few different rows before the first look."""

_ENTRIES = 8
_FULL = 16
"""Entries of a queue that is full, so that it cannot grow: a short one may hold its first frame several times."""

_MOST_PARTS = 16
_MOST_COMPARED = 2048
"""Entries at the beginning, and again as many from all over a container."""

_APART = 4
_LOOKS = 4


class Alias(NamedTuple):
    """A container whose entries are one object, or hold it at one place."""

    container: Any
    place: str
    """Where the object stands in each entry; empty where it is the entry itself."""
    kind: str
    entries: int
    content: tuple[Any, ...]
    """What the object holds now, in short."""


class AliasedBuffers(Watch):
    """Writes an event for the first buffer that is found."""

    name = "aliased-buffers"
    writes = ("events:aliased-buffer",)

    def __init__(self, session: Session, data: DataWatch) -> None:
        super().__init__(session)
        self._data = data
        self._before: dict[tuple[int, str], tuple[int, tuple[Any, ...]]] = {}
        """Containers of the last look, by id() and place: how many entries they had, and what these held."""
        self._due = 0
        self._looks = 0

    def listen(self, signals: Signals) -> None:
        """Look at the end of a step, when nothing of it is being computed."""
        signals.row_ends.connect(self.name, self._each_step)

    def _each_step(self) -> None:
        step = self.session.position.step
        if self._looks >= _LOOKS or step < self._due or not self._data.few_rows:
            return
        elements, batches = self._data.few_rows.most_common(1)[0]
        if batches < _BATCHES:
            return
        self._looks += 1
        self._due = step + _APART * self._looks
        found = list(aliases(elements))
        grown = [a for a in found if self._overwritten(a)]
        self._before = {(id(a.container), a.place): (a.entries, a.content) for a in found}
        if grown:
            # the entry itself stands before what it holds
            best = min(grown, key=lambda a: (-a.entries, a.place))
            holder = holders_of(
                [best.container], ["list"], [False], lambda value: isinstance(value, nn.Module), [found, grown, *found]
            )[0]
            if holder is not OURS:
                self._write(best, holder)
                self._looks = _LOOKS

    def _overwritten(self, alias: Alias) -> bool:
        before = self._before.get((id(alias.container), alias.place))
        if before is None or before[1] == alias.content:
            return False
        full = isinstance(alias.container, deque) and alias.entries == alias.container.maxlen
        return before[0] < alias.entries or (full and alias.entries >= _FULL)

    def _write(self, alias: Alias, holder: Holder | None) -> None:
        self.session.rows.event(
            "aliased-buffer",
            f"{alias.entries} entries of a list are one and the same {alias.kind}",
            detail={
                "entries": alias.entries,
                "kind": alias.kind,
                "place": alias.place,
                "name": holder.name if holder else None,
                "scope": holder.scope if holder else None,
                "line": holder.place if holder else None,
                "statement": holder.expression if holder else None,
            },
        )


def aliases(elements: int) -> Iterator[Alias]:
    """Lists and queues all of whose entries are, or hold at the same place, one object with rows of so many elements."""
    for container in [o for o in gc.get_objects() if type(o) in {list, deque} and len(o) >= _ENTRIES]:
        entries = _entries(container)
        first = next(entries, None)
        if first is None:
            continue
        shared = {
            place: (key, value)
            for place, value in _parts(first)
            if _holds_rows(value, elements) and (key := _key(value)) is not None
        }
        compared = 1
        for entry in entries if shared else ():
            here = {place: _key(value) for place, value in _parts(entry) if place in shared}
            shared = {place: known for place, known in shared.items() if here.get(place) == known[0]}
            compared += 1
            if not shared:
                break
        if shared and compared >= _ENTRIES:
            count = sum(entry is not None for entry in container)
            for place, (_, value) in shared.items():
                yield Alias(container, place, type(value).__name__, count, _content(value))


def _entries(container: Any) -> Iterator[Any]:
    """Entries that are set: all of a short container, else many of a long one."""
    every = max(1, len(container) // _MOST_COMPARED)
    with suppress(RuntimeError):  # another thread adds to it
        yield from (entry for entry in islice(container, _MOST_COMPARED) if entry is not None)
        yield from (entry for entry in islice(container, _MOST_COMPARED, None, every) if entry is not None)


def _parts(entry: Any) -> Iterator[tuple[str, Any]]:
    """An entry itself, and what it holds by position, key or attribute; no method of a script's class is called."""
    yield "", entry
    if isinstance(entry, (tuple, list)):
        yield from ((f"[{place}]", part) for place, part in enumerate(islice(entry, _MOST_PARTS)))
    else:
        held = entry if type(entry) is dict else getattr(entry, "__dict__", None)
        if type(held) is dict:
            named = (key for key in list(held)[:_MOST_PARTS] if isinstance(key, str))
            yield from (((f"[{key!r}]" if held is entry else f".{key}"), held[key]) for key in named)


def _is_array(value: Any) -> bool:
    if isinstance(value, Tensor):
        return measurable(value) and value.layout is torch.strided and value.data_ptr() != 0
    return type(value).__name__ == "ndarray" and type(value).__module__ == "numpy"


def _key(value: Any) -> tuple[Any, ...] | None:
    """What two objects have in common that are one in memory."""
    if _is_array(value):
        pointer = value.data_ptr() if isinstance(value, Tensor) else value.__array_interface__["data"][0]
        return pointer, tuple(value.shape)
    return (id(value),) if type(value) in {list, deque, dict} else None


def _holds_rows(value: Any, elements: int) -> bool:
    """Whether an object is a row of a batch, several of them, or a list of rows."""
    if _is_array(value):
        rows = value.shape[0] if len(value.shape) > 1 else 1
        count = value.numel() if isinstance(value, Tensor) else value.size
        return count in {elements, elements * rows}
    if type(value) in {list, deque} and value:
        last = value[-1]
        if isinstance(last, (int, float)):
            return len(value) == elements
        return any(_is_array(part) and _holds_rows(part, elements) for _, part in _parts(last))
    if type(value) is dict:
        return any(_is_array(part) and _holds_rows(part, elements) for part in list(value.values())[:_MOST_PARTS])
    return False


def _content(value: Any) -> tuple[Any, ...]:
    if isinstance(value, Tensor):
        inside = value.is_inference()
        late = value.device.type in LATE_DEVICES
        return (None if inside else value._version, None if late else fingerprint(value))
    if _is_array(value):
        return (hash(value.reshape(-1)[:: max(1, value.size // _MOST_COMPARED)].tobytes()),)
    parts = list(value.values() if isinstance(value, dict) else value)[-_MOST_PARTS:]
    return (len(value), *(_content(part) if _is_array(part) else id(part) for part in parts))
