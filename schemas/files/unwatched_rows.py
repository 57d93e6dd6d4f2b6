"""The last rows of `unwatched_steps`: a memory-mapped file of fixed-size records, in the order in which they were made.

A row is there once it is made, without a system call, and survives any death of the process; the journal takes many at once.
Each record has its number and its checksum, and the head counts them: one that is damaged or missing is noticed.
"""

import mmap
import struct
import zlib
from pathlib import Path

import msgspec

from .safe_files import read_file

CAPACITY = 64
"""Rows that the file holds; the journal must have taken the older ones."""

_MAGIC = b"FFROWS01"
_HEAD = struct.Struct("<8sqq")  # magic, records made, twice
_COUNT = struct.Struct("<qq")
_COUNT_AT = 8
_ROW = struct.Struct("<qqqq?d")  # number from 1 on, step, time_ns, steps, whether a loss was read, loss
_CRC = struct.Struct("<I")
_RECORD = _ROW.size + _CRC.size
_FIRST = 64
SIZE = _FIRST + CAPACITY * _RECORD

DAMAGED = "it is damaged: the last losses of steps that went unwatched may be missing"

_TRIES = 3


class UnwatchedRow(msgspec.Struct, frozen=True):
    """One row: ``steps`` steps up to ``step`` have ended, the last at ``time_ns``; its loss, where it was read."""

    step: int
    time_ns: int
    steps: int
    loss: float | None


class UnwatchedRowsWriter:
    """Owner of the mapping in the training process. Raises OSError where the file cannot be made."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with path.open("w+b") as f:
            f.write(_HEAD.pack(_MAGIC, 0, 0).ljust(SIZE, b"\0"))  # a hole would need its block when it is written to
            f.flush()
            self._map = mmap.mmap(f.fileno(), SIZE)
        self._made = 0

    def put(self, step: int, time_ns: int, steps: int, loss: float | None) -> None:
        """Keep a row, in the place of the oldest."""
        self._made = number = self._made + 1
        row = _ROW.pack(number, step, time_ns, steps, loss is not None, loss or 0.0)
        at = _FIRST + (number - 1) % CAPACITY * _RECORD
        self._map[at : at + _RECORD] = row + _CRC.pack(zlib.crc32(row))
        _COUNT.pack_into(self._map, _COUNT_AT, number, number)

    def remove(self) -> None:
        """The journal has taken every row."""
        self._map.close()
        self._path.unlink(missing_ok=True)


def read_unwatched_rows(path: Path) -> tuple[list[UnwatchedRow], str | None]:
    """The rows in the order of their steps, and what is wrong with the file; none where there is no file."""
    found: tuple[list[UnwatchedRow], str | None] = [], None
    for _ in range(_TRIES):  # a rank that goes on may write while it is read
        found = _read(path)
        if found[1] is None:
            break
    return found


def rows_after(rows: list[UnwatchedRow], last: int) -> list[UnwatchedRow]:
    """Those that follow the step ``last`` without a gap: what the journal of a running process has taken meanwhile may have
    been overwritten here."""
    found: list[UnwatchedRow] = []
    for row in rows:
        if row.step - row.steps == last:
            found.append(row)
            last = row.step
    return found


def _read(path: Path) -> tuple[list[UnwatchedRow], str | None]:
    try:
        raw = read_file(path, path.parents[1], SIZE)
    except FileNotFoundError:
        return [], None
    except OSError as e:
        return [], f"cannot be read ({e.strerror})"
    if len(raw) != SIZE:
        return [], DAMAGED
    magic, made, again = _HEAD.unpack_from(raw, 0)
    if magic != _MAGIC or made != again or made < 0:
        return [], DAMAGED
    rows: list[UnwatchedRow] = []
    for number in range(max(made - CAPACITY, 0) + 1, made + 1):
        at = _FIRST + (number - 1) % CAPACITY * _RECORD
        row, (crc,) = raw[at : at + _ROW.size], _CRC.unpack_from(raw, at + _ROW.size)
        found, step, time_ns, steps, has_loss, loss = _ROW.unpack(row)
        if found == number and crc == zlib.crc32(row):
            rows.append(UnwatchedRow(step, time_ns, steps, loss if has_loss else None))
    if len(rows) < min(made, CAPACITY):
        return rows, DAMAGED
    return rows, None
