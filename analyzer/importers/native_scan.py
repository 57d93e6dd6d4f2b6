"""Events of a trace by a C library that reads the text once, in any layout, where it was built when firstfault was installed.

The library tells numbers, and texts by their numbers; each different text is read as JSON here, once. Events that are out of
the ordinary are named and left to the caller. Without the library everything is read by ``event_arrays``, which says the same.
``FIRSTFAULT_NATIVE=0`` in the environment leaves the library out.
"""

import ctypes
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .event_columns import EVENTS, NUMBERS, OUTER, TEXTS

ENV_NATIVE = "FIRSTFAULT_NATIVE"
VERSION = 1
"""As in trace_scan.c: a library that was built from another is not used."""

_PATH = Path(__file__).with_name("libtrace_scan.so")

MOST_EVENTS = 1 << 16
"""Events that are told at a time."""
_MOST_TEXTS = 1 << 16
"""Different texts of a column after which their numbers begin again."""
_MOST_BYTES = 1 << 25
_FEW_TEXTS = 1 << 10
"""Different texts of a column that are handed on whole: to find out which of them are used would take longer."""

_OF_EVENT, _OF_ARGS = 0, 1
_TEXT, _TIME, _WHOLE, _NUMBER, _LIST, _ARGS = range(1, 7)

_REST = "args_json"
_CODED = [*dict.fromkeys(column for column in OUTER.values() if column != "flow_id"), *TEXTS.values(), _REST]
_COUNTED = ["ts_ns", "dur_ns", "flow_id", *dict.fromkeys(NUMBERS.values())]
_KINDS = {c.name: c.type for c in EVENTS.columns}


class _Columns(ctypes.Structure):
    _fields_ = (
        ("numbers", ctypes.c_void_p),
        ("has", ctypes.c_void_p),
        ("codes", ctypes.c_void_p),
        ("number_count", ctypes.c_int32),
        ("code_count", ctypes.c_int32),
        ("begins", ctypes.c_void_p),
        ("ends", ctypes.c_void_p),
        ("odd", ctypes.c_void_p),
    )


class _Result(ctypes.Structure):
    _fields_ = (("count", ctypes.c_int64), ("end", ctypes.c_int64), ("status", ctypes.c_int32))


@dataclass(slots=True)
class ScannedEvents:
    """Events of a text: their columns, and which of them must be read by themselves, with where these stand."""

    count: int
    end: int
    columns: dict[str, pa.Array]
    odd: list[int]
    spans: list[tuple[int, int]]


class TraceScanner:
    """Reads the events of one trace, piece by piece."""

    def __init__(self, library: ctypes.CDLL, base_ns: int) -> None:
        self._library, self._base = library, base_ns
        self._state = ctypes.c_void_p(library.firstfault_scan_new(len(_CODED) - 1))
        if not self._state:
            raise MemoryError
        self._names: list[bytes] = []
        for key, column in OUTER.items():
            kind, place = (_WHOLE, _COUNTED.index(column)) if column in _COUNTED else (_TEXT, _CODED.index(column))
            self._key(_OF_EVENT, key, kind, place)
        self._key(_OF_EVENT, "ts", _TIME, _COUNTED.index("ts_ns"))
        self._key(_OF_EVENT, "dur", _TIME, _COUNTED.index("dur_ns"))
        self._key(_OF_EVENT, "args", _ARGS, -1)
        for key, column in NUMBERS.items():
            self._key(_OF_ARGS, key, _NUMBER, _COUNTED.index(column))
        for key, column in TEXTS.items():
            self._key(_OF_ARGS, key, _LIST, _CODED.index(column))
        self._numbers = np.zeros((len(_COUNTED), MOST_EVENTS), np.int64)
        self._has = np.zeros((len(_COUNTED), MOST_EVENTS), np.uint8)
        self._codes = np.zeros((len(_CODED), MOST_EVENTS), np.int32)
        self._begins, self._ends = np.zeros(MOST_EVENTS, np.int64), np.zeros(MOST_EVENTS, np.int64)
        self._odd = np.zeros(MOST_EVENTS, np.uint8)
        self._pointers = [_pointers(array) for array in (self._numbers, self._has, self._codes)]
        self._columns = _Columns(
            *(ctypes.addressof(pointers) for pointers in self._pointers),
            len(_COUNTED),
            len(_CODED),
            *(array.ctypes.data for array in (self._begins, self._ends, self._odd)),
        )
        self._known = [_Texts(_READS[name]) for name in _CODED]

    def __del__(self) -> None:
        self._library.firstfault_scan_free(self._state)

    def _key(self, level: int, name: str, kind: int, column: int) -> None:
        raw = name.encode()
        self._names.append(raw)  # the library keeps its address
        if not self._library.firstfault_scan_key(self._state, level, raw, len(raw), kind, column):
            raise ValueError(name)

    def scan(self, buffer: bytearray, at: int, held: int) -> ScannedEvents | None:
        """The whole events of a buffer from a place on; None where the text there is none, or not yet a whole one."""
        self._forget()
        text = (ctypes.c_char * len(buffer)).from_buffer(buffer)
        found = _Result()
        self._library.firstfault_scan_events(
            self._state, text, at, held, MOST_EVENTS, ctypes.byref(self._columns), ctypes.byref(found)
        )
        del text  # while it is there the buffer has a fixed size
        count = found.count
        if not count:
            return None
        odd = self._odd[:count].astype(np.bool_)
        columns: dict[str, pa.Array] = {}
        for place, name in enumerate(_CODED):
            column = self._coded(place, count, odd)
            if column is not None:
                columns[name] = column
        for place, name in enumerate(_COUNTED):
            column = self._counted(place, count, name)
            if column is not None:
                columns[name] = column
        which = np.flatnonzero(odd)
        spans = zip(self._begins[which].tolist(), self._ends[which].tolist(), strict=True)
        return ScannedEvents(count, found.end, columns, which.tolist(), list(spans))

    def _forget(self) -> None:
        """Let go of texts before they become too many."""
        for place, known in enumerate(self._known):
            known.take(self._library, self._state, place)
        if any(len(known.values) > _MOST_TEXTS or known.size > _MOST_BYTES for known in self._known):
            self._library.firstfault_scan_forget(self._state)
            self._known = [_Texts(_READS[name]) for name in _CODED]

    def _coded(self, place: int, count: int, odd: npt.NDArray[np.bool_]) -> pa.Array | None:
        """A column of texts; events whose text cannot be read are marked as odd."""
        codes, known = self._codes[place, :count], self._known[place]
        known.take(self._library, self._state, place)
        if not len(known.values):
            return None
        there = codes >= 0
        if known.broken:
            broken = np.zeros(len(known.values) + 1, np.bool_)  # -1, no text, is the last
            broken[known.broken] = True
            odd |= broken[codes]
        texts, codes = known.array(), codes.copy()
        if len(known.values) > _FEW_TEXTS:
            used = np.unique(codes[there])
            numbers = np.zeros(len(known.values), np.int32)
            numbers[used] = np.arange(len(used), dtype=np.int32)
            texts, codes = texts.take(pa.array(used)), numbers[codes]
        return pa.DictionaryArray.from_arrays(_array(codes, there), texts, safe=False) if there.any() else None

    def _counted(self, place: int, count: int, name: str) -> pa.Array | None:
        there = self._has[place, :count].view(np.bool_)
        if not there.any():
            return None
        values = self._numbers[place, :count]
        array = _array(values + self._base if name == "ts_ns" else values.copy(), there)
        return array.cast(pa.string()) if name == "flow_id" else array


class _Texts:
    """The different texts of a column, read."""

    def __init__(self, read: Callable[[str], str | None]) -> None:
        self._read = read
        self.values: list[str] = []
        self.broken: list[int] = []
        """Numbers of those that cannot be read."""
        self.size = 0
        self._array: pa.Array | None = None

    def take(self, library: ctypes.CDLL, state: ctypes.c_void_p, column: int) -> None:
        """Read those that are new."""
        at, ends = ctypes.c_void_p(), ctypes.c_void_p()
        count = library.firstfault_scan_texts(state, column, ctypes.byref(at), ctypes.byref(ends))
        known = len(self.values)
        if count == known or not at.value or not ends.value:
            return
        places = (ctypes.c_int64 * count).from_address(ends.value)[known:]
        text = ctypes.string_at(at.value + self.size, places[-1] - self.size)
        before = self.size
        begin = 0
        for place in places:
            end = place - before
            value = self._one(text[begin:end])
            if value is None:
                self.broken.append(len(self.values))
            self.values.append(value or "")  # the events of one that is broken are read by themselves
            begin = end
        self.size, self._array = places[-1], None

    def _one(self, raw: bytes) -> str | None:
        try:
            value = self._read(raw.decode())
            if value is not None and not value.isascii():
                value.encode()  # half of a surrogate pair
        except (ValueError, RecursionError):
            return None
        return value

    def array(self) -> pa.Array:
        """All of them."""
        if self._array is None:
            self._array = pa.array(self.values, pa.string())
        return self._array


def _array(values: npt.NDArray[Any], there: npt.NDArray[np.bool_]) -> pa.Array:
    """Numbers, null where they are not there."""
    valid = None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))
    kind = pa.int32() if values.dtype == np.int32 else pa.int64()
    return pa.Array.from_buffers(kind, len(values), [valid, pa.py_buffer(values)])


def _plain(text: str) -> str | None:
    """A text or a whole number."""
    if not text.startswith('"'):
        return text
    return json.loads(text, strict=False) if "\\" in text else text[1:-1]


def _list(text: str) -> str | None:
    return _written(json.loads(text, parse_constant=_refuse))


def _rest(text: str) -> str | None:
    """Keys with their values; None where a key is there twice."""
    pairs: list[tuple[str, Any]] = []
    found = json.loads(
        f"{{{text}}}", strict=False, object_pairs_hook=lambda p: (pairs.append(("", len(p))), dict(p))[1]
    )
    return _written(found) if len(found) == pairs[-1][1] else None


def _written(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _refuse(name: str) -> None:
    raise ValueError(name)


_READS = {name: _rest if name == _REST else _list if name in TEXTS.values() else _plain for name in _CODED}
"""Column → how its texts are read."""


def _pointers(rows: npt.NDArray[Any]) -> "ctypes.Array[ctypes.c_void_p]":
    """Where each row of a table begins."""
    return (ctypes.c_void_p * len(rows))(*(row.ctypes.data for row in rows))


def load_scanner() -> ctypes.CDLL | None:
    """The library; None where it is not there, is another version, or is not wanted."""
    if os.environ.get(ENV_NATIVE) == "0" or not _PATH.is_file():
        return None
    try:
        library = ctypes.CDLL(str(_PATH))
        library.firstfault_scan_version.restype = ctypes.c_int32
        if library.firstfault_scan_version() != VERSION:
            return None
    except (OSError, AttributeError):
        return None
    pointer, size, code = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32
    for name, result, *given in (
        ("new", pointer, code),
        ("key", code, pointer, code, ctypes.c_char_p, size, code, code),
        ("events", None, pointer, pointer, size, size, size, pointer, pointer),
        ("texts", size, pointer, code, pointer, pointer),
        ("forget", None, pointer),
        ("free", None, pointer),
    ):
        function = getattr(library, f"firstfault_scan_{name}")
        function.restype, function.argtypes = result, given
    return library
