"""Read files of a folder that a stranger may have made: no link out of it is followed, nothing that is no file is opened, and
nothing larger than it can honestly be is read."""

import errno
import os
import stat
from pathlib import Path
from typing import TypeVar

import msgspec

from .checksums import crc_holds

Record = TypeVar("Record")

MOST_JSON = 64 * 2**20
"""Bytes of a JSON file of a run; honest ones are a thousandth of it."""

MOST_SEGMENT = 2**30
"""Bytes of a journal segment; the writer closes them at 64 MiB."""


def check_file(path: Path, root: Path, most: int | None = None) -> None:
    """Raise OSError, with a reason in words, for a file that is not to be opened; FileNotFoundError where there is none."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root)):
        raise OSError(errno.ELOOP, "it is a link out of the run folder", str(path))
    if most is not None and found.st_size > most:
        raise OSError(errno.EFBIG, f"it has {found.st_size:,} bytes, more than firstfault ever writes", str(path))


def read_file(path: Path, root: Path, most: int = MOST_JSON) -> bytes:
    """All of a file below ``root``. Raises OSError as ``check_file`` does."""
    check_file(path, root, most)
    return path.read_bytes()


def read_record(path: Path, root: Path, kind: type[Record]) -> Record | None:
    """The record in a JSON file below ``root``; None where there is none, or what is there is not what was written."""
    try:
        found = msgspec.json.decode(read_file(path, root))
        return msgspec.convert(found, kind) if isinstance(found, dict) and crc_holds(found) else None
    except (OSError, ValueError, RecursionError):
        return None
