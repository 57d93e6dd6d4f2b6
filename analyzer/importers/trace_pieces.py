"""Cut a JSON trace of any layout into pieces of whole events, in flat memory.

White space, the order of keys and the place of `traceEvents` do not matter. A cut is right exactly where the text up to it is a
whole JSON array: msgspec checks that while it lays the piece out as Kineto does. A file that has this layout already is cut
at `\\n  },\\n  {`, which no JSON string can hold; the reader refuses such a piece if its events are not what they seem. A scanner
needs none of this: it takes whole events from wherever the text stands.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from .byte_streams import ByteStream
from .native_scan import ScannedEvents, TraceScanner

PIECE = 6_000_000
"""Bytes that are read at a time: larger pieces leave the processor's caches, smaller ones cost more calls than work."""

_LONGEST = 1 << 26
"""Bytes that one value may take before it counts as broken."""

_SLOW = 1 << 20
"""Bytes that are read event by event before the fast way is tried again."""

_LINES_BEGIN = b"\n  "
_LINES = b"\n  },\n  {"
_LINES_END = b"\n  ]"
_JOINT = re.compile(rb"\}\s*,\s*\{")
_LAST = re.compile(rb"\}\s*\]")
_SPACE = re.compile(rb"[\s,]*")
_EVENT_AFTER_JOINT = re.compile(rb'\}\s*,\s*(?=\{\s*"(?:ph|cat|name|pid|tid|ts|dur|args|id)"\s*:)')
_END_BEHIND = re.compile(rb'\}(?=\s*\]\s*(?:\}|,\s*"))')
"""The end of the last event, where it cannot be read."""
_BYTE = re.compile(r"\(byte (\d+)\)")
_TAIL = 1 << 16
"""Bytes at the end of a piece in which a place to cut is looked for first."""
_CUTS = 6
"""Places to cut that are tried before the events are read one by one."""

_BOM = b"\xef\xbb\xbf"


@dataclass(slots=True)
class Piece:
    """Whole events. ``scanned``: as columns; ``events`` are the texts of the odd ones. Else ``text``: in Kineto's layout, or None
    where each of ``events`` is a text of its own."""

    text: memoryview | None
    events: list[bytes]
    scanned: ScannedEvents | None = None
    refused: bool = False
    """Set by the reader of a piece whose events are not what its layout promises: it comes once more, cut another way."""


class _BrokenError(ValueError):
    """The text cannot be read beyond ``at``, a place in the buffer; ``torn``: it ends in the middle of a value."""

    def __init__(self, at: int, *, torn: bool) -> None:
        super().__init__(at)
        self.at, self.torn = at, torn


class TracePieces:
    """Iterate to get the pieces; ``header`` then holds all other keys of the trace's object.

    ``cut``: the end is missing, or the text is no JSON from ``broken_at`` on; ``torn_bytes`` were left out after the last event.
    """

    def __init__(self, stream: ByteStream, scanner: TraceScanner | None = None) -> None:
        self._stream, self._scanner = stream, scanner
        self._buffer = bytearray(min(1 << 16, PIECE))
        self._at = self._held = self._before = 0
        self._ended = False
        self._decoder = json.JSONDecoder(strict=False)
        self._opening = b""
        self._slow_until = 0
        self.header: dict[str, Any] = {}
        self.is_trace = self.cut = False
        self.broken_at: int | None = None
        self.torn_bytes = 0

    def __iter__(self) -> Iterator[Piece]:
        try:
            self._grow()
            if self._buffer.startswith(_BOM):
                self._at = len(_BOM)
            opening = self._next()
            self._at += 1
            if opening == b"[":
                self.is_trace = True
                yield from self._events()
            elif opening == b"{":
                yield from self._object()
        except _BrokenError as e:
            self.cut = True
            self.torn_bytes = self._held - self._at
            self.broken_at = None if e.torn else self._before + e.at

    def read_header(self) -> None:
        """Read what stands before the first event."""
        next(iter(self), None)

    # -- the object round the events ------------------------------------------------------------------------------------------

    def _object(self) -> Iterator[Piece]:
        while (char := self._next()) != b"}":
            if char != b'"':
                raise _BrokenError(self._at, torn=False)
            key = self._value()
            if self._next() != b":":
                raise _BrokenError(self._at, torn=False)
            self._at += 1
            if key == "traceEvents" and self._next() == b"[":
                self.is_trace = True
                self._at += 1
                yield from self._events()
            else:
                self.header[str(key)] = self._value()
        self._at += 1

    def _value(self) -> Any:
        """The next value, read by the standard library: it takes NaN, Infinity and line breaks in strings."""
        self._next()
        while True:
            text = self._buffer[self._at : self._held].decode("latin-1")  # a character is a byte
            try:
                _, end = self._decoder.raw_decode(text)
            except (json.JSONDecodeError, RecursionError) as e:
                if not _goes_on(e, text) or len(text) > _LONGEST or not self._grow():
                    raise self._broken(e, text, self._at) from None
                continue
            if end == len(text) and not self._ended and self._grow():
                continue  # a number may go on
            raw = bytes(self._buffer[self._at : self._at + end])
            self._at += end
            return self._decoder.decode(raw.decode("utf-8", "replace"))

    # -- events ---------------------------------------------------------------------------------------------------------------

    def _events(self) -> Iterator[Piece]:
        while self._next() != b"]":
            self._fill()
            if not self._opening:
                self._opening = bytes(self._buffer[self._at : self._at + 64].translate(None, b" \t\r\n")[:6])
            yield from self._piece()
        self._at += 1

    def _piece(self) -> Iterator[Piece]:
        """The next piece, in the fastest way that holds."""
        scanned = self._scanner.scan(self._buffer, self._at, self._held) if self._scanner is not None else None
        if scanned is not None:
            odd = [bytes(self._buffer[begin:end]) for begin, end in scanned.spans]
            yield Piece(None, odd, scanned)
            self._at = scanned.end
            return
        if self._scanner is None and self._before + self._at >= self._slow_until:
            end = self._end_of_lines()
            if end is not None:
                piece = Piece(memoryview(self._buffer)[self._at : end], [])
                yield piece
                piece.text = None
                if not piece.refused:
                    self._at = end
                    return
            found = self._laid_out()
            if found is not None:
                text, end = found
                piece = Piece(text, [])
                yield piece
                if not piece.refused:
                    self._at = end
                    return
        events, end = self._one_by_one()
        self._at = end
        if events:
            yield Piece(None, events)
        elif self._next() != b"]" and not self._grow():
            raise _BrokenError(self._at, torn=True)

    def _end_of_lines(self) -> int | None:
        """Where the last whole event of the buffer ends, in Kineto's layout; None where it has another one."""
        if self._at < len(_LINES_BEGIN) or not self._buffer.startswith(
            _LINES_BEGIN + b"{", self._at - len(_LINES_BEGIN)
        ):
            return None
        last = self._buffer.rfind(_LINES, self._at, self._held)
        if last < 0 or self._buffer.find(_LINES_END, self._at, last) >= 0:
            return None
        return last + 4

    def _laid_out(self) -> tuple[memoryview, int] | None:
        """Whole events of the buffer laid out as Kineto does, and where they end; None where no place to cut was found."""
        broken = 0
        for end in self._cuts():
            text, broken = self._formatted(end)
            if text is not None:
                return text, end
            if broken < end:  # not JSON already before this place: the array may have ended
                break
        ends = list(_LAST.finditer(self._buffer, self._at, broken or self._held))
        for found in ends[-1:] if broken else ends[:1]:
            end = found.start() + 1
            text, broken = self._formatted(end)
            if text is not None:
                return text, end
        self._slow_until = self._before + max(min(broken, self._at + _SLOW), self._at + 1)
        return None

    def _cuts(self) -> list[int]:
        """Places that may lie between two events, likely ones first."""
        for begin in (max(self._at, self._held - _TAIL), self._at):
            joints = list(_JOINT.finditer(self._buffer, begin, self._held))[::-1]
            if joints:
                break
        likely = [j for j in joints[:2000] if self._is_opening(j.end() - 1)]
        others = [j for j in joints[:_CUTS] if j not in likely]
        return [j.start() + 1 for j in [*likely[:_CUTS], *others][:_CUTS]]

    def _is_opening(self, at: int) -> bool:
        return self._buffer[at : at + 64].translate(None, b" \t\r\n").startswith(self._opening)

    def _formatted(self, end: int) -> tuple[memoryview | None, int]:
        """The events up to this place in Kineto's layout; where they are no JSON, None and where that begins."""
        text = b"[" + self._buffer[self._at : end] + b"]"
        try:
            whole = msgspec.json.format(text, indent=2)
        except RecursionError:
            return None, self._at
        except msgspec.DecodeError as e:
            byte = _BYTE.search(str(e))
            return None, self._at + int(byte[1]) - 1 if byte else end
        return memoryview(whole)[len("[\n  ") : -len("\n]")], end

    def _one_by_one(self) -> tuple[list[bytes], int]:
        """Events as the standard library finds them, and where they end."""
        events: list[bytes] = []
        limit = min(self._held, self._at + _SLOW)
        text = self._buffer[self._at : limit].decode("latin-1")
        at = end = 0
        while True:
            space = _SPACE.match(self._buffer, self._at + at, limit)
            at = (space.end() if space else self._at) - self._at
            if at >= len(text) or text[at] == "]":
                return events, self._at + max(at, end)
            try:
                _, end = self._decoder.raw_decode(text, at)
            except (json.JSONDecodeError, RecursionError) as e:
                last = self._ended and limit == self._held
                torn = _goes_on(e, text)
                resumed = None if torn else _EVENT_AFTER_JOINT.search(self._buffer, self._at + at, limit)
                if resumed is None and last and not torn:
                    resumed = _END_BEHIND.search(self._buffer, self._at + at, limit)
                if resumed is None:
                    if events:
                        return events, self._at + at
                    if not last:
                        return self._longer(text)
                    raise self._broken(e, text, self._at) from None
                end = resumed.start() + 1 - self._at
            events.append(bytes(self._buffer[self._at + at : self._at + end]))
            at = end

    def _longer(self, text: str) -> tuple[list[bytes], int]:
        """An event that is longer than what was looked at."""
        while not self._ended and self._held - self._at <= min(len(text) * 4, _LONGEST):
            self._grow()
        whole = self._buffer[self._at : min(self._held, self._at + _LONGEST)].decode("latin-1")
        try:
            _, end = self._decoder.raw_decode(whole)
        except (json.JSONDecodeError, RecursionError) as e:
            if _goes_on(e, whole) and not self._ended and len(whole) < _LONGEST:
                return self._longer(whole)
            raise self._broken(e, whole, self._at) from None
        return [bytes(self._buffer[self._at : self._at + end])], self._at + end

    # -- the buffer -----------------------------------------------------------------------------------------------------------

    def _next(self) -> bytes:
        """The character at which the next value begins, which stays to be read."""
        while True:
            found = _SPACE.match(self._buffer, self._at, self._held)
            self._at = found.end() if found else self._at
            if self._at < self._held:
                return bytes(self._buffer[self._at : self._at + 1])
            if not self._grow():
                raise _BrokenError(self._at, torn=True)

    def _fill(self) -> None:
        """Read on until a whole piece is there; keep three bytes ahead of it, which tell its layout."""
        if self._held - self._at < PIECE // 2 and not self._ended:
            self._grow(PIECE)

    def _grow(self, least: int = 0) -> bool:
        """Read on; False at the end of the file."""
        if self._ended:
            return False
        kept = max(self._at - 3, 0)
        rest = self._buffer[kept : self._held]
        size = max(least, len(self._buffer))
        if len(rest) > size // 2:
            size *= 2
        if size != len(self._buffer):
            self._buffer = bytearray(size)
        self._buffer[: len(rest)] = rest
        self._before, self._at, self._held = self._before + kept, self._at - kept, len(rest)
        count = self._stream.fill(memoryview(self._buffer)[self._held :])
        self._held += count
        self._ended = self._held < len(self._buffer)
        return count > 0

    def _broken(self, error: Exception, text: str, at: int) -> _BrokenError:
        where = error.pos if isinstance(error, json.JSONDecodeError) else 0
        return _BrokenError(at + where, torn=_goes_on(error, text))


def _goes_on(error: Exception, text: str) -> bool:
    """Whether more text could make this value whole."""
    if not isinstance(error, json.JSONDecodeError):
        return False
    return error.msg.startswith("Unterminated string") or error.pos >= len(text.rstrip()) - len("-Infinity")
