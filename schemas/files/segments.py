"""Read a journal segment record by record, so that damage costs the records that it hit and no others.

A record of STEP_VALUES carries its checksum, and the length and checksum that the segment of tensor_stats beside it had by then.
`written.bin` tells how far a writer came, so that a segment that was cut between two records is known from one that ended there.
"""

import mmap
import os
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from .layout import written_path
from .safe_files import read_file
from .step_values import STEP_VALUES, STEP_VALUES_SCHEMA, Mark, mark_of

_CONTINUES = b"\xff\xff\xff\xff"
_END = _CONTINUES + bytes(4)
_ALIGNED = 8
_MOST_TRIES = 20_000
"""Places at which a next record is looked for in a damaged segment; a file of nothing but such places must not keep a reader."""

_WRITTEN = struct.Struct("<8sqqqqI")
_MAGIC = b"FFWRITE1"
_WRITTEN_SIZE = _WRITTEN.size + 4


class Written(NamedTuple):
    """How far a writer came: the segment, its records of whole steps, their bytes, and bytes and checksum of tensor_stats."""

    segment: int
    records: int
    bytes: int
    stats_bytes: int
    stats_crc: int


class WrittenNote:
    """The note of one writer, memory-mapped: it costs no system call, and the kernel keeps it whatever becomes of the process."""

    def __init__(self, path: Path) -> None:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.pwrite(fd, bytes(_WRITTEN_SIZE), 0)  # its page has room on the disk from here on
            self._map = mmap.mmap(fd, _WRITTEN_SIZE)
        finally:
            os.close(fd)

    def put(self, segment: int, records: int, bytes_: int, stats_bytes: int, stats_crc: int) -> None:
        """Overwrite it."""
        raw = _WRITTEN.pack(_MAGIC, segment, records, bytes_, stats_bytes, stats_crc)
        self._map[:] = raw + zlib.crc32(raw).to_bytes(4, "little")


def read_written(run: Path, rank: int) -> Written | None:
    """The note of a rank's writer; None where there is none. Raises ValueError for one that is damaged."""
    try:
        raw = read_file(written_path(run, rank), run, _WRITTEN_SIZE)
    except OSError:
        return None
    if not any(raw) and len(raw) == _WRITTEN_SIZE:
        return None  # nothing was written yet
    if len(raw) != _WRITTEN_SIZE or zlib.crc32(raw[:-4]) != int.from_bytes(raw[-4:], "little"):
        raise ValueError("its checksum does not match")
    magic, *numbers = _WRITTEN.unpack(raw[:-4])
    if magic != _MAGIC:
        raise ValueError("its checksum does not match")
    return Written(*numbers)


def bytes_written(run: Path, rank: int, segment: int) -> dict[str, int]:
    """Stream → bytes that its writer had written by its own note; empty where that does not tell."""
    try:
        written = read_written(run, rank)
    except ValueError:
        return {}
    if written is None or written.segment != segment:
        return {}
    return {STEP_VALUES: written.bytes, "tensor_stats": written.stats_bytes}


def missing_at_end(run: Path, rank: int, segment: int, streams: Mapping[str, Path]) -> dict[str, int]:
    """Stream → bytes that its writer had written by its own note and that are not there; empty where none are missing."""
    missing: dict[str, int] = {}
    for name, size in bytes_written(run, rank, segment).items():
        if name not in streams:
            continue  # already in parts
        there = streams[name].stat().st_size
        if size > there:
            missing[name] = size - there
    return missing


@dataclass(slots=True)
class Records:
    """What one segment holds. ``lost`` are records, or stretches of bytes between two of them, that are not what was written;
    ``torn_bytes`` follow the last record that can be read."""

    table: pa.Table
    lost: int = 0
    torn_bytes: int = 0
    torn: str | None = None
    """Why what follows cannot be read."""
    complete: int = 0
    """Records that could be read."""
    marks: list[Mark] = field(default_factory=list)
    """Of records of STEP_VALUES."""


def read_records(raw: bytes, schema: pa.Schema | None = None, marks: Sequence[Mark] = ()) -> Records:
    """Every sound record of a segment. ``schema``: stands in for one that is damaged, where checksums can tell whether it
    fits. ``marks``: those of the records of STEP_VALUES beside a segment of tensor_stats.

    Raises pa.ArrowException where not even the schema can be read.
    """
    found, batches, good, why = _whole_batches(raw, schema if marks or (schema and "check" in schema.names) else None)
    lost = sum(not _valid(batch) for _, _, batch in batches) + (good == 0)
    batches = [b for b in batches if _valid(b[2])]
    torn = len(raw) - good
    if torn > 0 and (why is not None or raw[good : good + 8] != _END):
        more = _after_damage(raw, good + _ALIGNED if good else 0, found)
        if more:
            lost += good > 0
            lost += sum(b > a for (_, a, _), (b, _, _) in pairwise(more))
            batches += more
            torn, why = len(raw) - more[-1][1], why if more[-1][1] < len(raw) else None
        if torn > 0 and why is None:  # Arrow takes zeros for the end of a stream
            why = "no record begins where the next one should"
    records = Records(found.empty_table(), lost, max(0, torn), why, len(batches))
    if found.get_field_index("check") >= 0 and found.field("check").type == STEP_VALUES_SCHEMA.field("check").type:
        _keep_sound(batches, records)
    else:
        _keep_marked(raw, batches, marks, records)
    return records


_Placed = list[tuple[int, int, pa.RecordBatch]]
"""Batches with the places at which they begin and end."""


def _whole_batches(raw: bytes, otherwise: pa.Schema | None) -> tuple[pa.Schema, _Placed, int, str | None]:
    """Schema, batches up to the first that cannot be read, the place behind them, and why it goes on no further.

    ``otherwise``: the schema where that cannot be read; without it raises as Arrow does."""
    batches: _Placed = []
    source = pa.BufferReader(pa.py_buffer(raw))
    try:
        stream = pa.ipc.open_stream(source)
    except (pa.ArrowException, OSError, ValueError):
        if otherwise is None:
            raise
        return otherwise, [], 0, "its schema is damaged"
    good = source.tell()
    try:
        while True:
            batch = stream.read_next_batch()
            batches.append((good, source.tell(), batch))
            good = source.tell()
    except StopIteration:
        return stream.schema, batches, good, None
    except (pa.ArrowException, OSError, ValueError) as e:
        return stream.schema, batches, good, (str(e).splitlines() or [type(e).__name__])[0]


def _valid(batch: pa.RecordBatch) -> bool:
    """Whether a batch can be looked at: Arrow does not check offsets, and a wrong one leads anywhere in memory."""
    try:
        batch.validate(full=True)
    except (pa.ArrowException, ValueError):
        return False
    return True


def _keep_sound(batches: _Placed, records: Records) -> None:
    """Records of whole steps whose checksums hold."""
    kept: list[pa.RecordBatch] = []
    for _, _, batch in batches:
        try:
            values, checks = batch.column("rows").to_pylist(), batch.column("check").to_pylist()
        except (pa.ArrowException, KeyError, ValueError, UnicodeDecodeError):
            records.lost += 1
            continue
        found = [mark_of(value, check) for value, check in zip(values, checks, strict=True)]
        if None in found:
            records.lost += 1
            continue
        kept.append(batch)
        records.marks += [mark for mark in found if mark is not None]
    records.complete = len(kept)
    if kept:
        records.table = pa.Table.from_batches(kept)


def _keep_marked(raw: bytes, batches: _Placed, marks: Sequence[Mark], records: Records) -> None:
    """Batches of tensor_stats that lie in no stretch whose checksum says that it is damaged."""
    bad = list(_bad_stretches(raw, marks))
    kept = [b for a, e, b in batches if not any(a < end and begin < e for begin, end in bad)]
    records.lost += len(batches) - len(kept)
    missing = max((m.stats_bytes for m in marks), default=0) - len(raw)
    if missing > 0:
        records.lost += 1
        records.torn = records.torn or f"{missing} bytes are missing at its end"
    records.complete = len(kept)
    if kept:
        records.table = pa.Table.from_batches(kept)


def _bad_stretches(raw: bytes, marks: Iterable[Mark]) -> Iterable[tuple[int, int]]:
    view = memoryview(raw)
    at, crc = 0, 0
    for mark in marks:
        end = mark.stats_bytes
        if end < at:  # another writer went on in the same segment; what it has not counted it cannot vouch for
            at, crc = end, mark.stats_crc
        if end == at:
            continue
        if end <= len(raw) and zlib.crc32(view[at:end], crc) != mark.stats_crc:
            yield at, end
        at, crc = end, mark.stats_crc


def _after_damage(raw: bytes, begin: int, schema: pa.Schema) -> _Placed:
    """Records after a place that cannot be read: each begins with a marker, at a multiple of eight bytes."""
    found: _Placed = []
    buffer = pa.py_buffer(raw)
    at, tries = begin, 0
    while tries < _MOST_TRIES:
        at = raw.find(_CONTINUES, at)
        if at < 0:
            break
        if at % _ALIGNED:
            at += 1
            continue
        tries += 1
        source = pa.BufferReader(buffer.slice(at))
        try:
            batch = pa.ipc.read_record_batch(pa.ipc.read_message(source), schema)
        except (pa.ArrowException, OSError, EOFError, ValueError):
            at += _ALIGNED
            continue
        if not _valid(batch):
            at += _ALIGNED
            continue
        found.append((at, at + source.tell(), batch))
        at += source.tell()
        tries -= 1
    return found
