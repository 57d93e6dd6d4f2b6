"""Read a journal segment record by record, so that damage costs the records that it hit and no others.

A record of STEP_VALUES carries its checksum, and the length and checksum that the segment of tensor_stats beside it had by then.
`written.bin` tells how far a writer came, so that a segment that was cut between two records is known from one that ended there.
"""

import mmap
import os
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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

_AT_ONCE = 1024
"""Records of whole steps that are looked at together."""

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
    """Of records of STEP_VALUES, one for each that says more of the segment of tensor_stats than the one before."""


def read_records(raw: bytes, schema: pa.Schema | None = None, marks: Sequence[Mark] = ()) -> Records:
    """Every sound record of a segment. ``schema``: stands in for one that is damaged, where checksums can tell whether it
    fits. ``marks``: those of the records of STEP_VALUES beside a segment of tensor_stats.

    Raises pa.ArrowException where not even the schema can be read.
    """
    source = pa.BufferReader(pa.py_buffer(raw))
    otherwise = schema if marks or (schema and "check" in schema.names) else None
    found, stream, why = _stream_of(source, otherwise)
    of_steps = (
        found.get_field_index("check") >= 0 and found.field("check").type == STEP_VALUES_SCHEMA.field("check").type
    )
    keep = _SoundRecords() if of_steps else _MarkedBatches(raw, marks)
    lost, good = 0, 0
    if stream is None:
        lost = 1
    else:
        good = source.tell()
        try:
            while True:
                begin, batch = good, stream.read_next_batch()
                good = source.tell()
                if _valid(batch):
                    keep.take(begin, good, batch)
                else:
                    lost += 1
        except StopIteration:
            pass
        except (pa.ArrowException, OSError, ValueError) as e:
            why = (str(e).splitlines() or [type(e).__name__])[0]
    torn = len(raw) - good
    # zeros behind a marker within the stream are taken for its end
    if torn > 0 and (why is not None or raw[good:] != _END):
        end = None
        for begin, next_, batch in _after_damage(raw, good + _ALIGNED if good else 0, found):
            lost += good > 0 if end is None else begin > end
            keep.take(begin, next_, batch)
            end = next_
        if end is not None:
            torn, why = len(raw) - end, why if end < len(raw) else None
        if torn > 0 and why is None:  # Arrow takes zeros for the end of a stream
            why = "no record begins where the next one should"
    return keep.records(Records(found.empty_table(), lost, max(0, torn), why))


def _stream_of(
    source: pa.BufferReader, otherwise: pa.Schema | None
) -> tuple[pa.Schema, pa.ipc.RecordBatchStreamReader | None, str | None]:
    """Schema and stream, or why there is no stream; where no schema stands in for it raises as Arrow does."""
    try:
        stream = pa.ipc.open_stream(source)
        _ = stream.schema.names  # those of columns raise where they are no UTF-8
    except (pa.ArrowException, OSError, ValueError) as e:
        if otherwise is not None:
            return otherwise, None, "its schema is damaged"
        if isinstance(e, UnicodeDecodeError):
            raise pa.ArrowInvalid(f"its schema is damaged: {e}") from e
        raise
    return stream.schema, stream, None


def _valid(batch: pa.RecordBatch) -> bool:
    """Whether a batch can be looked at: Arrow does not check offsets, and a wrong one leads anywhere in memory."""
    try:
        batch.validate(full=True)
    except (pa.ArrowException, ValueError):
        return False
    return True


@dataclass(slots=True)
class _SoundRecords:
    """Records of whole steps whose checksums hold. A small model has hundreds of thousands in one segment, and a batch of Arrow
    takes kilobytes whatever it holds: so they are put together as they come."""

    waiting: list[pa.RecordBatch] = field(default_factory=list)
    kept: list[pa.RecordBatch] = field(default_factory=list)
    complete: int = 0
    lost: int = 0
    marks: list[Mark] = field(default_factory=list)

    def take(self, _begin: int, _end: int, batch: pa.RecordBatch) -> None:
        self.waiting.append(batch)
        if len(self.waiting) >= _AT_ONCE:
            self._look()

    def _look(self) -> None:
        sound: list[pa.RecordBatch] = []
        for batch in self.waiting:
            try:
                values, checks = batch.column("rows").to_pylist(), batch.column("check").to_pylist()
            except (pa.ArrowException, KeyError, ValueError, UnicodeDecodeError):
                self.lost += 1
                continue
            found = [mark_of(value, check) for value, check in zip(values, checks, strict=True)]
            if None in found:
                self.lost += 1
                continue
            sound.append(batch)
            for mark in found:
                # of those that vouch for the same stretch one is enough
                if mark is not None and (not self.marks or mark[1:] != self.marks[-1][1:]):
                    self.marks.append(mark)
        self.waiting.clear()
        self.complete += len(sound)
        if sound:
            self.kept += pa.Table.from_batches(sound).combine_chunks().to_batches()

    def records(self, records: Records) -> Records:
        """These, with what is known of them."""
        self._look()
        records.lost += self.lost
        records.marks, records.complete = self.marks, self.complete
        if self.kept:
            records.table = pa.Table.from_batches(self.kept)
        return records


@dataclass(slots=True)
class _MarkedBatches:
    """Batches of a table that lie in no stretch whose checksum says that it is damaged."""

    raw: bytes
    marks: Sequence[Mark]
    placed: list[tuple[int, int, pa.RecordBatch]] = field(default_factory=list)

    def take(self, begin: int, end: int, batch: pa.RecordBatch) -> None:
        self.placed.append((begin, end, batch))

    def records(self, records: Records) -> Records:
        """These, with what is known of them."""
        bad = list(_bad_stretches(self.raw, self.marks))
        kept = [b for a, e, b in self.placed if not any(a < end and begin < e for begin, end in bad)]
        records.lost += len(self.placed) - len(kept)
        missing = max((m.stats_bytes for m in self.marks), default=0) - len(self.raw)
        if missing > 0:
            records.lost += 1
            records.torn = records.torn or f"{missing} bytes are missing at its end"
        records.complete = len(kept)
        if kept:
            records.table = pa.Table.from_batches(kept)
        return records


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


def _after_damage(raw: bytes, begin: int, schema: pa.Schema) -> Iterator[tuple[int, int, pa.RecordBatch]]:
    """Records after a place that cannot be read: each begins with a marker, at a multiple of eight bytes."""
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
        yield at, at + source.tell(), batch
        at += source.tell()
        tries -= 1
