"""RUN/output.log: the last part of what the script wrote to stdout and stderr, in the order it came, without its secrets."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

TAIL_BYTES = 256 * 1024
"""Kept at the end of a run. While it runs the file may hold twice as much, so that it is rewritten rarely."""

_LONGEST_HELD = 4096
"""Bytes of an unfinished line that wait for its end, so that a secret is not cut in two."""

_AT_THE_END = 1024
"""Bytes of a longer line that wait at its end: a secret may have begun in them."""

_TRIED = 8
"""Spaces at which such a line is tried to be cut."""

_LONGEST_KEY = 16 * 1024
"""Bytes of a private key that has begun which wait for its last line: it is printed line by line."""


class OutputTail:
    """Appended as bytes come, so that the tail survives the supervisor. A full disk ends the log, never the script.

    ``hide`` is given whole lines and hands back what may be written; without it every byte is written at once. Each stream's
    unfinished line is held by itself: pieces of two streams that come in turns make no line.
    """

    def __init__(self, path: Path, limit: int = TAIL_BYTES, hide: Callable[[bytes], bytes] | None = None) -> None:
        self._hide = hide
        self._held: dict[int, bytes] = {}
        self._path = path
        self._limit = limit
        self._lock = threading.Lock()
        self._size = 0
        self.failure: OSError | None = None
        """Why the log ended early; None while it is whole."""
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def write(self, data: bytes, stream: int = 1) -> None:
        """Keep ``data`` of one stream, 1 or 2; called from the threads of both."""
        with self._lock:
            if self.failure is not None:
                return
            try:
                self._append(data if self._hide is None else self._hide(self._whole_lines(data, stream, self._hide)))
            except OSError as e:
                self.failure = e

    def _whole_lines(self, data: bytes, stream: int, hide: Callable[[bytes], bytes]) -> bytes:
        """What is complete of what has come so far; the rest is held until its line ends."""
        data = self._held.pop(stream, b"") + data
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if len(data) - end > _LONGEST_HELD:
            end += _cut_of(data[end:], hide)
        begun = data.rfind(b"-----BEGIN ", 0, end)
        if begun >= 0 and b"PRIVATE KEY" in data[begun : begun + 64] and b"-----END " not in data[begun:end]:
            end = begun if len(data) - begun <= _LONGEST_KEY else end
        self._held[stream] = data[end:]
        return data[:end]

    def _append(self, data: bytes) -> None:
        data = data[-2 * self._limit :]
        if data:
            self._size += os.write(self._fd, data)
        if self._size > 2 * self._limit:
            self._cut()

    def close(self) -> None:
        """Write what is held, and cut the file to the limit."""
        with self._lock:
            try:
                for held in self._held.values():
                    if self.failure is None and self._hide is not None:
                        self._append(self._hide(held))
                if self.failure is None and self._size > self._limit:
                    self._cut()
            except OSError as e:
                self.failure = e
            os.close(self._fd)

    def _cut(self) -> None:
        tail = os.pread(self._fd, self._limit, self._size - self._limit)
        tmp = self._path.with_suffix(".log.tmp")
        fd = os.open(tmp, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            size = os.write(fd, tail)
            tmp.rename(self._path)
        except OSError:
            os.close(fd)
            tmp.unlink(missing_ok=True)
            raise
        os.close(self._fd)
        self._fd, self._size = fd, size


def _cut_of(line: bytes, hide: Callable[[bytes], bytes]) -> int:
    """A place in a long unfinished line where cutting it hides no less; its end where it is too long to wait, 0 to wait."""
    whole, cut = hide(line), len(line) - _AT_THE_END
    for _ in range(_TRIED):
        cut = line.rfind(b" ", 0, cut)
        if cut <= 0:
            break
        if hide(line[:cut]) + hide(line[cut:]) == whole:
            return cut
    return len(line) if len(line) > _LONGEST_KEY else 0
