"""Where the keys and the values stand in a text of trace events, found for many events at a time.

An unescaped quote ends a JSON string, so `":` without a backslash before it ends a key wherever it stands, and a line break
within a string is always escaped, so a brace alone on a line with two spaces begins an event. What lies between the end of one
key and the beginning of the next is a value with the marks that follow it: no byte of the text belongs to nothing.
"""

from collections.abc import Collection

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Text = bytes | bytearray | memoryview
Places = npt.NDArray[np.int32]

MARKS = b" \n,"
"""What stands around a value inside an event."""

_WORD = 8
_LONGEST_KEY = 200
_TAILS = (b"\n    }\n  },\n  {\n    ", b"\n  },\n  {\n    ")
"""What Kineto writes between the last value of an event and the first key of the next: with args, and without."""


class OddEventsError(ValueError):
    """These events, counted from the beginning of the text, must be read one by one."""

    def __init__(self, events: npt.ArrayLike) -> None:
        super().__init__("events that are to be read one by one")
        self.events = sorted({int(event) for event in np.asarray(events).ravel()})


def _words(text: Text) -> npt.NDArray[np.unsignedinteger]:
    """Eight bytes from each place of a text on, as one number."""
    return np.ndarray((max(len(text) - _WORD + 1, 0),), "<u8", text, strides=(1,))


def event_starts(text: Text) -> Places:
    """Where the events of a text begin, the first of which begins at its beginning."""
    letters = np.frombuffer(text, np.uint8)
    braces = np.flatnonzero(letters == ord("{"))
    braces = braces[braces >= 3]
    for back, mark in enumerate(b"  \n", 1):
        braces = braces[letters[braces - back] == mark]
    return np.concatenate([np.zeros(1, np.int32), braces.astype(np.int32)])


class EventTokens:
    """The keys of all events of a text, which begins with the brace of the first and ends with that of the last.

    ``starts`` is where each event begins. Each key of the text has its event in ``event``; ``keys`` tells which keys have which
    name, in ascending order; a name that is not ``sought`` may stand for others that are as long and end in the same eight
    letters, which saves reading them here. Raises OddEventsError for events in which this cannot be told.
    """

    def __init__(self, text: Text, sought: Collection[str]) -> None:
        self._sought = {name.encode() for name in sought}
        self._text = memoryview(text)
        self._bytes = np.frombuffer(text, np.uint8)
        self._eights = _words(text)
        self.starts = event_starts(text)
        colons = np.flatnonzero(self._bytes == ord(":"))
        self._ends = (colons[self._bytes[colons - 1] == ord('"')] - 1).astype(np.int32)
        """The closing quote of each key."""
        self._odd_where(self._ends[(self._ends < _WORD) | (self._bytes[self._ends - 1] == ord("\\"))])
        counts = np.diff(np.searchsorted(self._ends, self.starts), append=len(self._ends))
        self.event = np.repeat(np.arange(len(self.starts), dtype=np.int32), counts)
        last = (np.cumsum(counts) - 1)[counts > 0][:-1]  # the last key of each event but the last event
        self.keys: dict[str, Places] = {}
        self._begins = self._ends - self._named() - 1
        """The opening quote of each key."""
        self._until = np.append(self._begins[1:], np.int32(self._whole()))
        """Where the value of each key ends, with the marks after it."""
        self._until[last] = self._before_next(self._until[last])

    @property
    def count(self) -> int:
        """Number of events."""
        return len(self.starts)

    def values(self, keys: Places) -> pa.StringArray:
        """The value of each of these keys, with marks around it."""
        return self._cut(self._ends[keys] + 2, self._until[keys], keys)

    def have_value(self, keys: Places, text: bytes) -> npt.NDArray[np.bool_]:
        """Which of these keys have exactly this value, of eight bytes or more, with the marks around it."""
        begins = self._ends[keys] + 2
        same = self._until[keys] - begins == len(text)
        begins = np.where(same, begins, 0)  # another value may be nearer to the end of the text
        return same & self._stands(text, begins)

    def runs(self, first: Places, last: Places) -> pa.StringArray:
        """From each of these keys up to the value of another one, with marks after it."""
        return self._cut(self._begins[first], self._until[last], first)

    def _cut(self, begins: Places, ends: Places, keys: Places) -> pa.StringArray:
        offsets = np.empty(2 * len(begins), np.int32)
        offsets[::2], offsets[1::2] = begins, ends
        back = np.flatnonzero(offsets[1:] < offsets[:-1])
        if len(back):  # a key that seems to begin before the one ahead of it ends
            raise OddEventsError(self.event[keys[[back // 2, (back + 1) // 2]]])
        what = pa.StringArray.from_buffers(max(len(offsets) - 1, 0), pa.py_buffer(offsets), pa.py_buffer(self._text))
        return what.take(pa.array(np.arange(0, len(offsets), 2)))

    def _odd_where(self, places: Places) -> None:
        if len(places):
            raise OddEventsError(np.searchsorted(self.starts, places, side="right") - 1)

    # -- names --------------------------------------------------------------------------------------------------------------

    def _named(self) -> Places:
        """Fill ``keys``; the length of each key. Their last eight bytes tell short keys apart; those of longer keys that end
        alike are compared with the first of them."""
        coded = pa.array(self._eights[self._ends - _WORD]).dictionary_encode()
        different = len(coded.dictionary)
        codes = coded.indices.to_numpy().astype(
            np.uint8 if different < 1 << 8 else np.uint16 if different < 1 << 16 else np.int32
        )
        places = np.argsort(codes, kind="stable").astype(np.int32)  # few bits are sorted fast
        bounds = np.cumsum(np.bincount(codes, minlength=different))
        found: dict[str, list[Places]] = {}
        lengths = np.zeros(different, np.int32)
        unlike: list[tuple[Places, int]] = []
        for code, group in enumerate(np.split(places, bounds[:-1])):
            rest = group
            while len(rest):
                name = self._key_at(int(self._ends[rest[0]]))
                same = self._same(rest, name)
                named, rest = (rest, rest[:0]) if same.all() else (rest[same], rest[~same])
                found.setdefault(self._told(name, named), []).append(named)
                if len(named) == len(group):
                    lengths[code] = len(name)
                else:
                    unlike.append((named, len(name)))
        self.keys = {k: v[0] if len(v) == 1 else np.sort(np.concatenate(v)) for k, v in found.items()}
        of_each = lengths[codes]
        for named, length in unlike:
            of_each[named] = length
        return of_each

    def _key_at(self, end: int) -> bytes:
        before = bytes(self._text[max(end - _LONGEST_KEY, 0) : end])
        at = before.rfind(b'"')
        if at < 1 or b"\\" in before[at - 1 :]:
            self._odd_where(np.array([end]))
        return before[at + 1 :]

    def _same(self, tokens: Places, name: bytes) -> npt.NDArray[np.bool_]:
        """Which of these keys, whose last eight bytes are the same, are the same as far as it matters."""
        if len(name) < _WORD:
            return np.ones(len(tokens), np.bool_)
        begins = self._ends[tokens] - len(name) - 1
        if name not in self._sought:
            before = self._bytes[np.maximum(begins - 1, 0)]
            return (self._bytes[np.maximum(begins, 0)] == ord('"')) & (before != ord("\\")) & (begins > 0)
        first = (b'"' + name)[: len(name) // _WORD * _WORD]  # the others are among the last eight
        return (begins >= 0) & self._stands(first, np.maximum(begins, 0))

    def _stands(self, what: bytes, begins: Places) -> npt.NDArray[np.bool_]:
        """At which of these places of the text these eight bytes or more stand."""
        same = np.ones(len(begins), np.bool_)
        for at in (*range(0, len(what) - _WORD, _WORD), len(what) - _WORD):
            same &= self._eights[begins + at] == int.from_bytes(what[at : at + _WORD], "little")
        return same

    def _told(self, name: bytes, tokens: Places) -> str:
        try:
            return name.decode()
        except UnicodeDecodeError:
            raise OddEventsError(self.event[tokens]) from None

    # -- values -------------------------------------------------------------------------------------------------------------

    def _whole(self) -> int:
        """Where the last value ends."""
        tail = bytes(self._text[-_LONGEST_KEY:])
        return len(self._bytes) - len(tail) + len(tail.rstrip(MARKS + b"}"))

    def _before_next(self, ends: Places) -> Places:
        """Where the last values of events end, given where the first keys of the next ones begin."""
        left = np.arange(len(ends))
        for tail in _TAILS:
            begins = np.maximum(ends[left] - len(tail), 0)
            match = self._stands(tail, begins)
            ends[left[match]] = begins[match]
            left = left[~match]
        for at in left:  # laid out otherwise
            tail = bytes(self._text[max(ends[at] - _LONGEST_KEY, 0) : ends[at]])
            ends[at] -= len(tail) - len(
                tail.rstrip(MARKS).removesuffix(b"{").rstrip(MARKS).removesuffix(b"}").rstrip(MARKS)
            )
        return ends
