"""Files as streams of bytes, packed or not, of which the end may be missing."""

import zlib
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

_RAW = 1 << 18
_PACKED = b"\x1f\x8b"
_MOST_LAYERS = 4
"""Layers of packing that are taken off: a packed file of packed zeros must not be unpacked for ever."""


def encoding_of(head: bytes) -> str:
    """The encoding that the first bytes of a text tell: a byte order mark, as Windows writes it, else UTF-8."""
    if head[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        return "utf-16"
    return "utf-8-sig" if head[:3] == b"\xef\xbb\xbf" else "utf-8"


def _read(file: FileIO, size: int) -> bytes:
    pieces: list[bytes] = []
    while size > 0 and (piece := file.read(size)):
        pieces.append(piece)
        size -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


class _Source(Protocol):
    """What bytes are read from."""

    def read(self, size: int, /) -> bytes:
        """Up to so many bytes, none at the end."""
        ...


class _Unpacked:
    """What is inside packed streams in a row, up to where they break off. ``cut`` says that they do."""

    def __init__(self, source: _Source, ahead: bytes) -> None:
        self._source = source
        self._unpack = zlib.decompressobj(31)
        self._raw = ahead
        self.cut = False

    def read(self, size: int, /) -> bytes:
        """Up to so many bytes, fewer only at the end."""
        pieces: list[bytes] = []
        while size > 0:
            piece = self._piece(size)
            if piece is None:
                break
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def _piece(self, size: int) -> bytes | None:
        """Some bytes, perhaps none yet; None at the end."""
        if self._unpack.eof:  # a file may hold several packed streams in a row
            self._raw = self._unpack.unused_data.lstrip(b"\0") or self._source.read(_RAW)
            if not self._raw:
                return None
            self._unpack = zlib.decompressobj(31)
        elif not self._raw:
            self._raw = self._source.read(_RAW)
            if not self._raw:
                self.cut = True
                return None
        try:
            piece = self._unpack.decompress(self._raw, size)
        except zlib.error:
            self.cut = True
            self._raw = b""
            self._unpack = zlib.decompressobj(31)
            return None
        self._raw = self._unpack.unconsumed_tail
        return piece


class ByteStream:
    """A file opened for reading; of a packed file what is inside, also of one that was packed twice."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb", buffering=0)
        self._layers: list[_Unpacked] = []
        self._ahead = self._file.read(len(_PACKED))
        while self._ahead == _PACKED and len(self._layers) < _MOST_LAYERS:
            self._layers.append(_Unpacked(self._source, self._ahead))
            self._ahead = self._source.read(len(_PACKED))
        if not self._layers:
            self._file.seek(0)
            self._ahead = b""

    @property
    def _source(self) -> FileIO | _Unpacked:
        return self._layers[-1] if self._layers else self._file

    @property
    def packed(self) -> bool:
        """Whether the file is packed."""
        return bool(self._layers)

    @property
    def cut(self) -> bool:
        """Whether a packed file breaks off."""
        return any(layer.cut for layer in self._layers)

    def read(self, size: int) -> bytes:
        """Up to so many bytes, fewer only at the end."""
        if not self._layers:
            return _read(self._file, size)
        ahead, self._ahead = self._ahead[:size], self._ahead[size:]
        return ahead + self._layers[-1].read(size - len(ahead))

    def fill(self, buffer: bytearray | memoryview) -> int:
        """Read into a buffer that is there already; the number of bytes, fewer than it holds only at the end."""
        if self._layers:
            found = self.read(len(buffer))
            buffer[: len(found)] = found
            return len(found)
        at, view = 0, memoryview(buffer)
        while at < len(buffer) and (count := self._file.readinto(view[at:])):
            at += count
        return at

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
