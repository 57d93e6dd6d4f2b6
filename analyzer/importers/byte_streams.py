"""Files as streams of bytes, packed or not, of which the end may be missing."""

import zlib
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Self

_RAW = 1 << 18


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


class ByteStream:
    """A file opened for reading; of a .gz file what is inside, up to where it breaks off. ``cut`` says that it does."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb", buffering=0)
        self.packed = self._file.read(2) == b"\x1f\x8b"
        self._file.seek(0)
        self._unpack = zlib.decompressobj(31)
        self._raw = b""
        self.cut = False

    def read(self, size: int) -> bytes:
        """Up to so many bytes, fewer only at the end."""
        if not self.packed:
            return _read(self._file, size)
        pieces: list[bytes] = []
        while size > 0:
            piece = self._piece(size)
            if piece is None:
                break
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def fill(self, buffer: bytearray | memoryview) -> int:
        """Read into a buffer that is there already; the number of bytes, fewer than it holds only at the end."""
        if self.packed:
            found = self.read(len(buffer))
            buffer[: len(found)] = found
            return len(found)
        at, view = 0, memoryview(buffer)
        while at < len(buffer) and (count := self._file.readinto(view[at:])):
            at += count
        return at

    def _piece(self, size: int) -> bytes | None:
        """Some bytes, perhaps none yet; None at the end."""
        if self._unpack.eof:  # a file may hold several packed streams on end
            self._raw = self._unpack.unused_data.lstrip(b"\0") or self._file.read(_RAW)
            if not self._raw:
                return None
            self._unpack = zlib.decompressobj(31)
        elif not self._raw:
            self._raw = self._file.read(_RAW)
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

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
