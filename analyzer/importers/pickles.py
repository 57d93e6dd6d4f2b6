"""Pickles of strangers: only plain values come out, nothing that they name is imported or called."""

import io
import pickle
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..errors import ImportFileError
from .byte_streams import ByteStream

_LARGEST = 4 << 30


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
    with ByteStream(path) as stream:
        raw = stream.read(_LARGEST)
    try:
        return _Plain(io.BytesIO(raw)).load()
    except Exception as e:  # a hostile or torn pickle can raise anything
        raise ImportFileError(
            f"{path}: cannot be read as a pickle of plain values ({_one_line(e)}); nothing was run"
        ) from e


def _one_line(e: BaseException) -> str:
    return (str(e).splitlines() or [type(e).__name__])[0][:200]
