"""The breadcrumb: 64 bytes in a memory-mapped file that say where a rank stands right now.

Written at every hook without a system call, so it survives any death of the process; the kernel keeps the page.
"""

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path

from ..columns import Phase
from .safe_files import read_file

_MAGIC = b"FFCRUMB1"
_FIXED = struct.Struct("<8sq")  # magic, pid
_MOVING = struct.Struct("<qqiii")  # time_ns, step, microbatch, phase, module_id
_MOVING_AT = _FIXED.size
_STEP = struct.Struct("<q")
_STEP_AT = _MOVING_AT + 8
SIZE = 64


@dataclass(frozen=True, slots=True)
class Position:
    """Where a rank stood: ``module_id`` is -1 outside modules, ``time_ns`` the wall clock of the note."""

    pid: int
    time_ns: int
    step: int
    microbatch: int
    phase: Phase
    module_id: int


class BreadcrumbWriter:
    """Owner of the mapping in the training process."""

    def __init__(self, path: Path, pid: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w+b") as f:
            f.truncate(SIZE)
            self._map = mmap.mmap(f.fileno(), SIZE)
        _FIXED.pack_into(self._map, 0, _MAGIC, pid)
        self._pack = _MOVING.pack_into
        self._pack_step = _STEP.pack_into

    def note(self, time_ns: int, step: int, microbatch: int, phase: int, module_id: int) -> None:
        """Overwrite the position."""
        self._pack(self._map, _MOVING_AT, time_ns, step, microbatch, phase, module_id)

    def count(self, step: int) -> None:
        """Overwrite the step alone."""
        self._pack_step(self._map, _STEP_AT, step)


def read_breadcrumb(path: Path) -> Position | None:
    """Last position of a rank, or None where there is none or the file is not a breadcrumb."""
    try:
        raw = read_file(path, path.parents[1], SIZE)
    except OSError:
        return None
    if len(raw) < SIZE:
        return None
    magic, pid = _FIXED.unpack_from(raw, 0)
    if magic != _MAGIC:
        return None
    time_ns, step, microbatch, phase, module_id = _MOVING.unpack_from(raw, _MOVING_AT)
    if phase not in set(Phase):
        return None
    return Position(pid, time_ns, step, microbatch, Phase(phase), module_id)
