"""The rows of a step as one value of the journal, for all tables that have a few rows a step.

Making an Arrow batch of one row with fifty columns takes the training's own thread a tenth of a millisecond for each table;
writing the same rows as MessagePack takes a few microseconds for all of them. They become columns where there is time: when
the segment is made into parts, or when it is read.
"""

import struct
import zlib
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from ..columns import SCHEMA_VERSION, VERSION_KEY
from ..tables import TABLES
from .json_text import encodable, plain

STEP_VALUES = "step_values"
"""Name of these segments in the journal."""

_CHECK = struct.Struct("<IIqq")

STEP_VALUES_SCHEMA = pa.schema(
    [("rows", pa.binary()), ("check", pa.binary(_CHECK.size))], metadata={VERSION_KEY: str(SCHEMA_VERSION).encode()}
)
"""A value is a map: table → rows, each a map: column → value. ``check`` holds its checksum and a Mark."""

Row = dict[str, Any]

_AT_ONCE = 4096
"""Rows that are turned into columns together: few enough to need little memory."""


_encode = msgspec.msgpack.Encoder(enc_hook=plain).encode
_decode = msgspec.msgpack.Decoder(dict[str, list[Row]]).decode


class Mark(NamedTuple):
    """How far the writer had come with a record: its number in the segment, and how many bytes the segment of tensor_stats of
    the same number had then, with the checksum of all of them."""

    number: int = 0
    stats_bytes: int = 0
    stats_crc: int = 0


_FIRST = Mark()


def _check_of(value: bytes, mark: Mark) -> bytes:
    number, stats_bytes, stats_crc = mark
    crc = zlib.crc32(_CHECK.pack(0, stats_crc, stats_bytes, number), zlib.crc32(value))
    return _CHECK.pack(crc, stats_crc, stats_bytes, number)


def mark_of(value: bytes | None, check: bytes | None) -> Mark | None:
    """The mark of a record whose checksum holds, else None."""
    if value is None or check is None or len(check) != _CHECK.size:
        return None
    _, stats_crc, stats_bytes, number = _CHECK.unpack(check)
    mark = Mark(number, stats_bytes, stats_crc)
    return mark if _check_of(value, mark) == check else None


def batch_of(rows: dict[str, list[Row]], mark: Mark = _FIRST) -> pa.RecordBatch:
    """Rows of one step as a batch of a STEP_VALUES segment."""
    value = _value(rows)
    return _batch(value, _check_of(value, mark))


_frames: dict[int, tuple[bytes, bytes, bytes]] = {}
"""Length of a value → what stands before, between and behind it and its check in the message, which depends on nothing else."""

_MOST_FRAMES = 4096
_LONGEST_FRAMED = 1 << 16


def message_of(rows: dict[str, list[Row]], mark: Mark = _FIRST) -> bytes:
    """``batch_of`` as a message of the stream, to the byte as Arrow serializes it.

    Lengths repeat, and Arrow takes the training's own thread longer for one value than all the rest of writing a step does.
    """
    value = _value(rows)
    check = _check_of(value, mark)
    frame = _frames.get(len(value))
    if frame is not None:
        return b"".join((frame[0], value, frame[1], check, frame[2]))
    message = _batch(value, check).serialize().to_pybytes()
    if len(value) <= _LONGEST_FRAMED and len(_frames) < _MOST_FRAMES:
        behind = message.rindex(check)  # only zeros stand behind each of the two, and no value begins with one
        at = message.rindex(value, 0, behind)
        _frames[len(value)] = message[:at], message[at + len(value) : behind], message[behind + len(check) :]
    return message


def _value(rows: dict[str, list[Row]]) -> bytes:
    try:
        return _encode(rows)
    except (UnicodeEncodeError, OverflowError):
        return _encode(encodable(rows))


def _batch(value: bytes, check: bytes) -> pa.RecordBatch:
    columns = [pa.array([value], pa.binary()), pa.array([check], pa.binary(_CHECK.size))]
    return pa.RecordBatch.from_arrays(columns, schema=STEP_VALUES_SCHEMA)


def tables_of(segment: pa.Table, names: Collection[str] = TABLES.keys()) -> tuple[dict[str, pa.Table], int]:
    """Table → rows in the declared shape, of the tables ``names`` that have any; and how many values could not be kept because
    they do not fit their columns (null in the rows), or are no rows at all."""
    waiting: dict[str, list[Row]] = {}
    done: dict[str, list[pa.Table]] = {}
    misfits = 0

    def flush(name: str) -> int:
        table, wrong = _in_columns(waiting.pop(name), TABLES[name].schema)
        done.setdefault(name, []).append(table)
        return wrong

    for value in _values(segment):
        try:
            found = _decode(value)
        except (msgspec.DecodeError, TypeError):
            misfits += 1
            continue
        for name, rows in found.items():
            if name in names and name in TABLES:
                held = waiting.setdefault(name, [])
                held += rows
                if len(held) >= _AT_ONCE:
                    misfits += flush(name)
    for name in list(waiting):
        misfits += flush(name)
    return {name: pa.concat_tables(tables) for name, tables in done.items()}, misfits


def _values(segment: pa.Table) -> Iterable[Any]:
    for batch in segment.to_batches() if "rows" in segment.column_names else ():
        yield from batch.column("rows").to_pylist()


def _in_columns(rows: list[Row], schema: pa.Schema) -> tuple[pa.Table, int]:
    try:
        struct = pa.array(rows, pa.struct(list(schema)))
        whole = pa.Table.from_batches([pa.RecordBatch.from_struct_array(struct)])
        return whole.replace_schema_metadata(schema.metadata), 0  # a cast would load pyarrow.compute
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        pass
    wrong = 0
    columns: list[list[Any]] = []
    for field in schema:
        kept: list[Any] = []
        for row in rows:
            value = row.get(field.name)
            try:
                pa.array([value], field.type)
            except (pa.ArrowException, TypeError, ValueError, OverflowError):
                value = None
                wrong += 1
            kept.append(value)
        columns.append(kept)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema), wrong
