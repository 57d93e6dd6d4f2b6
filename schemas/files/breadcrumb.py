"""The breadcrumb: a memory-mapped file that says where a rank stands right now.

Written at every hook without a system call, so it survives any death of the process; the kernel keeps the page. The position
stands there twice: where the copies differ, it is damaged, or its writer died between the two.
"""

import mmap
import struct
import time
from dataclasses import dataclass
from pathlib import Path

from ..columns import Phase
from .safe_files import read_file

_MAGIC = b"FFCRUMB2"
_FIXED = struct.Struct("<8sqq")  # magic, pid twice
_MOVING = struct.Struct("<qqiiiqqiii")  # time_ns, step, microbatch, phase, module_id, and all of them again
_MOVING_AT = _FIXED.size
_HALF = struct.Struct("<qqiii").size
_STEP_AT, _STEP_BYTES = _MOVING_AT + 8, 8
SIZE = 128

_TRIES = 3

_OLDER = b"FFCRUMB1"
_OLDER_LAYOUT = struct.Struct("<8sqqqiii")
"""Of 64 bytes, each number once."""
_OLDER_SIZE = 64


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
            f.write(bytes(SIZE))  # a hole would need its block at the first note: a full disk then kills the process
            f.flush()
            self._map = mmap.mmap(f.fileno(), SIZE)
        _FIXED.pack_into(self._map, 0, _MAGIC, pid, pid)
        self._pack = _MOVING.pack_into
        self.note(time.time_ns(), 0, 0, 0, -1)  # from here on a time of 0 is damage
        whole = memoryview(self._map)
        self._step, self._again = (whole[at : at + _STEP_BYTES].cast("q") for at in (_STEP_AT, _STEP_AT + _HALF))

    def note(self, time_ns: int, step: int, microbatch: int, phase: int, module_id: int) -> None:
        """Overwrite the position."""
        self._pack(
            self._map, _MOVING_AT, time_ns, step, microbatch, phase, module_id, time_ns, step, microbatch, phase, module_id
        )  # fmt: skip

    def count(self, step: int) -> None:
        """Overwrite the step alone."""
        self._step[0] = self._again[0] = step


def read_breadcrumb(path: Path) -> Position | None:
    """Last position of a rank, or None where there is none or the file is not a breadcrumb."""
    return look_at_breadcrumb(path)[0]


def look_at_breadcrumb(path: Path) -> tuple[Position | None, str | None]:
    """Last position of a rank, and what is wrong with the file. Of two copies that differ, none is given."""
    found = None, None
    for _ in range(_TRIES):  # a rank that goes on may write one copy while the other is read
        found = _look(path)
        if found[1] is None:
            break
    return found


def _look(path: Path) -> tuple[Position | None, str | None]:
    try:
        raw = read_file(path, path.parents[1], SIZE)
    except FileNotFoundError:
        return None, None
    except OSError as e:
        return None, f"cannot be read ({e.strerror})"
    if raw[:8] == _OLDER and len(raw) >= _OLDER_SIZE:
        _, pid, *moving = _OLDER_LAYOUT.unpack_from(raw, 0)
        copies = [(pid, *moving)]
    elif raw[:8] == _MAGIC and len(raw) >= SIZE:
        _, *pids = _FIXED.unpack_from(raw, 0)
        moving = _MOVING.unpack_from(raw, _MOVING_AT)
        copies = [(pids[0], *moving[:5]), (pids[1], *moving[5:])]
    else:
        return None, "it is damaged: where this rank stood last is not known"
    if len(copies) == 2 and not copies[0][1]:
        return None, "it is damaged: where this rank stood last is not known"
    if copies[0] != copies[-1]:
        return None, "its two copies differ: where this rank stood last is not known"
    pid, time_ns, step, microbatch, phase, module_id = copies[0]
    if phase not in set(Phase):
        return None, "it is damaged: where this rank stood last is not known"
    return Position(pid, time_ns, step, microbatch, Phase(phase), module_id), None
