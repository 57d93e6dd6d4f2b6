"""Events of any JSON trace, one by one, without holding the file: for layouts that the fast reader does not know.

Reads the array form `[{…}, …` (whose closing bracket the format lets writers leave out) and the object form with `traceEvents`
anywhere in it. The JSON scanner of the standard library finds the ends; it takes NaN and Infinity, which some producers write.
"""

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any, Protocol

_SPACE = re.compile(r"[\s,]*")
_READ = 1 << 20
_LONGEST = 1 << 26
"""Characters that one value may take before it counts as broken."""


class Readable(Protocol):
    """What bytes are read from."""

    def read(self, size: int, /) -> bytes:
        """Up to so many bytes, none at the end."""
        ...


class BrokenJsonError(ValueError):
    """The text cannot be read beyond this place; ``torn`` says that the file simply ends there."""

    def __init__(self, at: int, *, torn: bool) -> None:
        super().__init__(f"not JSON from character {at} on")
        self.at, self.torn = at, torn


class JsonTrace:
    """Iterate to get the events; afterwards ``header`` holds all other keys of the object, ``cut`` whether the end is missing."""

    def __init__(self, stream: Readable) -> None:
        self._stream = stream
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._scan = json.JSONDecoder().raw_decode
        self._text = ""
        self._at = 0
        self._before = 0
        self._ended = False
        self.header: dict[str, Any] = {}
        self.is_trace = False
        self.cut = False
        self.broken_at: int | None = None

    def __iter__(self) -> Iterator[Any]:
        try:
            opening = self._next_char()
            if opening == "[":
                self.is_trace = True
                self._at += 1
                yield from self._array()
            elif opening == "{":
                self._at += 1
                yield from self._object()
        except BrokenJsonError as e:
            self.cut = True
            self.broken_at = None if e.torn else e.at

    def _object(self) -> Iterator[Any]:
        while self._next_char() != "}":
            key = self._value()
            if self._next_char() != ":":
                raise BrokenJsonError(self._before + self._at, torn=self._ended)
            self._at += 1
            if key == "traceEvents" and self._next_char() == "[":
                self.is_trace = True
                self._at += 1
                yield from self._array()
            else:
                self.header[str(key)] = self._value()
        self._at += 1

    def _array(self) -> Iterator[Any]:
        while self._next_char() != "]":
            yield self._value()
        self._at += 1

    def _next_char(self) -> str:
        """The character at which the next value begins, which stays to be read."""
        while True:
            found = _SPACE.match(self._text, self._at)
            self._at = found.end() if found else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                raise BrokenJsonError(self._before + self._at, torn=True)

    def _value(self) -> Any:
        self._next_char()
        while True:
            try:
                value, end = self._scan(self._text, self._at)
            except (json.JSONDecodeError, RecursionError):
                if len(self._text) - self._at > _LONGEST or not self._more():
                    torn = self._ended and len(self._text) - self._at < _LONGEST
                    raise BrokenJsonError(self._before + self._at, torn=torn) from None
                continue
            if end == len(self._text) and not self._ended and self._more():
                continue  # a number may go on
            self._at = end
            return value

    def _more(self) -> bool:
        """Read on; False at the end of the file."""
        if self._ended:
            return False
        raw = self._stream.read(_READ)
        self._ended = not raw
        self._before += self._at
        self._text = self._text[self._at :] + self._decode(raw, self._ended)
        self._at = 0
        return bool(raw)
