"""Find the keys and values in a text of trace events, for many events at a time.

An unescaped quote ends a JSON string, so `":` without a backslash before it ends a key wherever it is. A line break within a
string is always escaped, so a brace alone on a line with two spaces begins an event. A value, with the marks that follow it,
lies between the end of one key and the beginning of the next: no byte of the text is left over.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Text = bytes | bytearray | memoryview
Words = npt.NDArray[np.uint64]
Places = npt.NDArray[np.int32]

MARKS = b" \n,"
"""What stands around a value inside an event."""

_WORD = 8
_BRACE_OR_COLON, _IN_ONE_OF_THEM = np.uint8(ord("{")), np.uint8(ord("{") ^ ord(":"))
_EVENT, _EVENT_BITS = np.uint64(int.from_bytes(b"\n  {", "little")), np.uint64(32)
_KEY, _KEY_BITS = np.uint64(int.from_bytes(b'":', "little")), np.uint64(48)
_SEEN = _WORD - len('":')
"""Letters of a key that the word with its colon holds."""

_PART = 1 << 18
"""Bytes that are looked through at a time."""

_LONGEST_KEY = 200
_TAILS = (b"\n    }\n  },\n  {\n    ", b"\n  },\n  {\n    ")
"""What Kineto writes between the last value of an event and the first key of the next: with args at its end, and without."""
_CLOSING = b"\n    },\n    "
"""What stands between the args of an event and a key behind them, where a file has its keys in another order."""


class OddEventsError(ValueError):
    """These events, counted from the beginning of the text, must be read one by one."""

    def __init__(self, events: npt.ArrayLike) -> None:
        super().__init__("events that are to be read one by one")
        self.events = sorted({int(event) for event in np.asarray(events).ravel()})


def _words(text: Text) -> Words:
    """Eight bytes from each place of a text on, as one number."""
    return np.ndarray((max(len(text) - _WORD + 1, 0),), "<u8", text, strides=(1,))


def event_starts(text: Text) -> Places:
    """Where the events of a text begin, the first of which begins at its beginning."""
    return _marks(text, _words(text))[0]


def _marks(text: Text, words: Words) -> tuple[Places, Places, Words, Words]:
    """Where events begin, where keys end, the words that end with the colons of these keys, and the words ahead of those; keys
    within the first word of the text are left out. It is read in parts that stay in the processor's cache until all is done."""
    letters = np.frombuffer(text, np.uint8)
    soon = bytes(text[:_WORD]).find(b"\n  {")
    starts, ends, tails, heads = [np.array([0] if soon < 0 else [0, soon + 3], np.int32)], [], [], []
    for begin in range(0, len(letters), _PART):
        part = letters[begin : begin + _PART] | _IN_ONE_OF_THEM
        places = np.flatnonzero(part == _BRACE_OR_COLON) + begin  # and few other letters
        if not begin:
            places = places[np.searchsorted(places, _WORD) :]
        found = words[places - (_WORD - 1)]
        starts.append(places[found >> _EVENT_BITS == _EVENT].astype(np.int32))
        keys = np.flatnonzero(found >> _KEY_BITS == _KEY)
        places = places.take(keys)
        ends.append(places.astype(np.int32) - 1)
        tails.append(found.take(keys))
        heads.append(words[np.maximum(places - (2 * _WORD - 1), 0)])
    return np.concatenate(starts), np.concatenate(ends), np.concatenate(tails), np.concatenate(heads)


class EventTokens:
    """The keys of all events of a text, which begins with the brace of the first and ends with that of the last.

    ``starts`` is where each event begins. Each key of the text has its event in ``event``; ``keys`` tells which keys have which
    name, in ascending order; one of more than twenty letters may stand for others that are as long and have the same first six
    and last fourteen. Raises OddEventsError for events in which this cannot be told.
    """

    def __init__(self, text: Text) -> None:
        self._text = memoryview(text)
        self._eights = _words(text)
        self.starts, self._ends, tails, self._heads = _marks(text, self._eights)
        """``_ends``: the closing quote of each key; ``_heads``: the word ahead of the one that ends with its colon."""
        if b'":' in bytes(self._text[:_WORD]):
            raise OddEventsError(0)
        counts = np.diff(np.searchsorted(self._ends, self.starts), append=len(self._ends))
        self.event = np.repeat(np.arange(len(self.starts), dtype=np.int32), counts)
        last = (np.cumsum(counts) - 1)[counts > 0][:-1]  # the last key of each event but the last event
        self.keys: dict[str, Places] = {}
        self._begins = self._ends - self._named(tails) - 1
        """The opening quote of each key."""
        self._until = np.append(self._begins[1:], np.int32(self._whole()))
        """Where the value of each key ends, with the marks after it."""
        self._args_last = np.zeros(len(self.starts), np.bool_)
        self._until[last], self._args_last[self.event[last]] = self._before_next(self._until[last])

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

    def behind(self, args: Places) -> Places:
        """The first key behind each of these args, of events in which they are not the last key. The last value within them then
        ends where they do."""
        args = args[~self._args_last[self.event[args]]]
        opened = np.full(self.count, len(self.event), np.int32)
        opened[self.event[args]] = args
        keys = np.flatnonzero(np.arange(len(self.event), dtype=np.int32) > opened[self.event]).astype(np.int32)
        begins = np.maximum(self._begins[keys] - len(_CLOSING), 0)
        closing = self._stands(_CLOSING, begins)
        keys, begins = keys[closing], begins[closing]
        first = np.append(True, self.event[keys[1:]] > self.event[keys[:-1]])[: len(keys)]
        self._until[keys[first] - 1] = begins[first]
        return keys[first]

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

    def _named(self, tails: Words) -> Places:
        """Fill ``keys``; the length of each key. The words that end with their colons tell short keys apart; those of longer keys
        that end alike are compared with the first of them."""
        coded = pa.array(tails).dictionary_encode()
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
                name = self._key_at(int(self._ends[rest[0]]), rest)
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

    def _key_at(self, end: int, alike: Places) -> bytes:
        """The key that ends here. Raises OddEventsError where a quote of it is part of a text: it may be for all ``alike``."""
        before = bytes(self._text[max(end - _LONGEST_KEY, 0) : end])
        at = before.rfind(b'"')
        if before.endswith(b"\\"):
            self._odd_where(self._ends[alike])
        if at < 1 or b"\\" in before[at - 1 :]:
            self._odd_where(np.array([end]))
        return before[at + 1 :]

    def _same(self, tokens: Places, name: bytes) -> npt.NDArray[np.bool_]:
        """Which of these keys, whose last letters are the same, are the same as the first, with the letter ahead of the quote."""
        ahead = len(b'?"') + len(name) - _SEEN  # so many bytes stand in the words ahead
        if ahead <= 0:
            return np.ones(len(tokens), np.bool_)
        if int(self._ends[tokens[0]]) < 2 * _WORD:
            raise OddEventsError(0)
        heads = self._heads.take(tokens)
        same = (heads ^ heads[0]) >> np.uint64(8 * max(_WORD - ahead, 0)) == 0
        if ahead > _WORD:
            first = self._eights[np.maximum(self._ends[tokens] - (len(name) + 2), 0)]
            same &= first == first[0]
        return same

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
        return len(self._text) - len(tail) + len(tail.rstrip(MARKS + b"}"))

    def _before_next(self, ends: Places) -> tuple[Places, npt.NDArray[np.bool_]]:
        """Where the last values of events end, given where the first keys of the next ones begin, and which stand in args."""
        left = np.arange(len(ends))
        in_args = np.zeros(len(ends), np.bool_)
        for tail in _TAILS:
            begins = np.maximum(ends[left] - len(tail), 0)
            match = self._stands(tail, begins)
            ends[left[match]] = begins[match]
            in_args[left[match]] = tail == _TAILS[0]
            left = left[~match]
        for at in left:  # laid out otherwise
            tail = bytes(self._text[max(ends[at] - _LONGEST_KEY, 0) : ends[at]])
            ends[at] -= len(tail) - len(
                tail.rstrip(MARKS).removesuffix(b"{").rstrip(MARKS).removesuffix(b"}").rstrip(MARKS)
            )
        return ends, in_args
