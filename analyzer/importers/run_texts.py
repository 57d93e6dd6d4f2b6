"""What runs of neighbouring keys say: each different text is read as JSON once, in however many pieces of a trace it stands."""

from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from .event_columns import EVENTS, row_of
from .event_tokens import MARKS, Places

_MOST = 1 << 14
"""Texts that are kept."""

_KINDS = {c.name: c.type for c in EVENTS.columns}


class RunTexts:
    """The texts that were met, and the columns of profiler_events that they fill. ``inside``: of keys that stand in `args`."""

    def __init__(self, *, inside: bool) -> None:
        self._inside = inside
        self._numbers: dict[bytes, int] = {}
        self._columns: dict[str, _Column] = {}

    def read(self, texts: pa.StringArray) -> Places:
        """The number of each of these texts; -1 where it must be read together with what stands around it."""
        if len(self._numbers) > _MOST:
            self._numbers, self._columns = {}, {}
        known = self._numbers
        raw = texts.cast(pa.binary()).to_pylist()
        return np.array([known[text] if text in known else self._new(text) for text in raw], np.int32)

    def columns(self, numbers: Places) -> Iterator[tuple[str, Places, pa.Array]]:
        """For each column that some of these texts fill: the place of each text's value, -1 where it has none, and the values."""
        for name, column in self._columns.items():
            places = column.places(numbers)
            used = np.unique(places)
            used = used[used >= 0]
            if len(used):
                there = np.where(places < 0, -1, np.searchsorted(used, places)).astype(np.int32)
                yield name, there, column.values(used)

    def _new(self, text: bytes) -> int:
        found = _object(text)
        number = -1 if found is None else len(self._numbers)
        self._numbers[text] = number
        if found is not None:
            row = row_of({"args": found} if self._inside else found, 0)
            for name, value in row.items():
                if name not in self._columns:
                    self._columns[name] = _Column(_KINDS[name])
                self._columns[name].add(number, value[1:-1] if name == "args_json" else value)
        return number


class _Column:
    """The different values of a column, and which text has which."""

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        self._values: dict[Any, int] = {}
        self._place = np.full(_MOST, -1, np.int32)
        self._array: pa.Array | None = None

    def add(self, number: int, value: Any) -> None:
        self._reach(number)
        if value not in self._values:
            self._array = None
        self._place[number] = self._values.setdefault(value, len(self._values))

    def places(self, numbers: Places) -> Places:
        self._reach(int(numbers.max(initial=0)))
        return self._place[numbers]

    def values(self, places: Places) -> pa.Array:
        array = self._array if self._array is not None else pa.array(list(self._values), self._kind)
        self._array = array
        return array.take(pa.array(places))

    def _reach(self, number: int) -> None:
        if number >= len(self._place):
            self._place = np.append(self._place, np.full(number, -1, np.int32))


def _object(text: bytes) -> dict[str, Any] | None:
    try:
        found = msgspec.json.decode(b"{" + text.strip(MARKS) + b"}", type=dict[str, Any])
    except (ValueError, msgspec.DecodeError):
        return None
    return found if len(found) == text.count(b'":') else None
