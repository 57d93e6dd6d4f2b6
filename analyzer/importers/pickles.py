"""Pickles of strangers: only plain values come out, nothing that they name is imported or called."""

import io
import pickle
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..errors import ImportFileError, first_line
from .byte_streams import ByteStream

_LARGEST = 2 << 30
"""Bytes that are read of a pickle: what comes out takes several times as much memory."""


def _same(value: Any, *_: Any) -> Any:
    return value


_ALLOWED: dict[tuple[str, str], Callable[..., Any]] = {
    ("collections", "OrderedDict"): OrderedDict,
    # torch's C++ writer names these where it writes a list of one type
    ("torch.jit._pickle", "build_intlist"): _same,
    ("torch.jit._pickle", "build_doublelist"): _same,
    ("torch.jit._pickle", "build_boollist"): _same,
    ("torch.jit._pickle", "restore_type_tag"): _same,
}


class _Source(io.RawIOBase):
    """A stream that is read as far as the pickle goes; what lies behind its end costs nothing."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream, self._read = stream, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        piece = self._stream.read(len(buffer))
        buffer[: len(piece)] = piece
        self._read += len(piece)
        if self._read > _LARGEST:
            raise pickle.UnpicklingError(f"it is larger than {_LARGEST >> 30} GiB")
        return len(piece)


class _Plain(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> Any:
        try:
            return _ALLOWED[module_name, global_name]
        except KeyError:
            raise pickle.UnpicklingError(f"it wants {module_name}.{global_name}, which could run code") from None

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError(f"it refers to an object outside itself ({pid!r:.40})")


def read_plain_pickle(path: Path) -> Any:
    """The dicts, lists, tuples, numbers and strings of a pickle. Raises ImportFileError where it holds anything else."""
    try:
        with ByteStream(path) as stream:
            return _Plain(io.BufferedReader(_Source(stream), 1 << 20)).load()
    except Exception as e:  # a hostile or torn pickle can raise anything
        raise ImportFileError(
            f"{path}: cannot be read as a pickle of plain values ({_one_line(e)}); nothing was run"
        ) from e


def _one_line(e: BaseException) -> str:
    return first_line(e)[:200]
