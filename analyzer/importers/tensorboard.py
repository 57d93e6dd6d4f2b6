"""TensorBoard event files: scalars into steps and metrics.

A file is a sequence of records (tensorflow/core/lib/io/record_writer.h): length, masked CRC-32C of the length, data, masked
CRC-32C of the data. The data is a protobuf message Event (tensorflow/core/util/event.proto); the few fields that are wanted are
read here by hand. Scalars are `simple_value`, or a tensor of one number (tensorflow/core/framework/summary.proto).
"""

import struct
from collections.abc import Iterator
from pathlib import Path

from ..errors import ImportFileError
from .byte_streams import ByteStream
from .protobuf import DamagedError, fields, varint
from .series import Point, put_curves
from .target import RunTarget

_LONGEST = 1 << 30
_CHECKED = 1 << 14
"""Bytes of a record up to which its checksum is computed; longer ones hold images, and are checked by their length's."""

_TABLE: list[int] = []
for _byte in range(256):
    _crc = _byte
    for _ in range(8):
        _crc = (_crc >> 1) ^ (0x82F63B78 if _crc & 1 else 0)
    _TABLE.append(_crc)

_FLOAT, _DOUBLE, _INT32, _INT64 = 1, 2, 3, 9
_FORMATS = {_FLOAT: "<f", _DOUBLE: "<d", _INT32: "<i", _INT64: "<q"}
"""DataType of a tensor → how its content is packed."""


def import_event_file(path: Path, target: RunTarget, label: str) -> str:
    """Read the scalars of an event file into the target; ``label`` goes before their tags. Returns what was found."""
    curves: dict[str, list[Point]] = {}
    others = records = 0
    stopped: str | None = None
    with ByteStream(path) as stream:
        reader = _records(stream)
        while True:
            try:
                record = next(reader)
            except StopIteration:
                break
            except DamagedError as e:
                stopped = str(e)
                break
            try:
                wall, step, values = _event(record)
            except (DamagedError, struct.error, UnicodeDecodeError):
                stopped = f"record {records} is no event"
                break
            records += 1
            for tag, number in values:
                if number is None:
                    others += 1
                else:
                    name = f"{label}/{tag}" if label else tag
                    curves.setdefault(name, []).append(Point(max(step, 0), number, int(wall * 1e9)))
    if stopped is not None and not records:
        raise ImportFileError(f"{path}: is no TensorBoard event file ({stopped})")
    if stopped is not None:
        message = (
            f"{path.name} cannot be read beyond its first {records} records ({stopped}); what is before was imported."
        )
        target.event("file-cut", message)
    if others:
        target.event(
            "values-left-out",
            f"{others} values of {path.name} are no numbers (images, histograms, text) and were left out.",
        )
    return put_curves(target, path, 0, curves, "tensorboard")


def _records(stream: ByteStream) -> Iterator[bytes]:
    while head := stream.read(12):
        if len(head) < 12:
            raise DamagedError("it breaks off")
        length, check = struct.unpack("<QI", head)
        if _masked(head[:8]) != check or length > _LONGEST:
            raise DamagedError("a length does not agree with its checksum")
        data = stream.read(length + 4)
        if len(data) < length + 4:
            raise DamagedError("it breaks off")
        record = data[:length]
        if length <= _CHECKED and _masked(record) != struct.unpack("<I", data[length:])[0]:
            raise DamagedError("a record does not agree with its checksum")
        yield record


def _masked(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _event(record: bytes) -> tuple[float, int, list[tuple[str, float | None]]]:
    """Wall time, step, and the values by tag; null for what is no number."""
    wall, step = 0.0, 0
    values: list[tuple[str, float | None]] = []
    for number, value in fields(record):
        if number == 1 and isinstance(value, bytes):
            wall = struct.unpack("<d", value)[0]
        elif number == 2 and isinstance(value, int):
            step = value - (1 << 64) if value >= 1 << 63 else value
        elif number == 5 and isinstance(value, bytes):
            values += [_value(inner) for field, inner in fields(value) if field == 1 and isinstance(inner, bytes)]
    return wall if 0 <= wall < 9e9 else 0.0, step, values


def _value(message: bytes) -> tuple[str, float | None]:
    tag, number = "", None
    for field, value in fields(message):
        if field == 1 and isinstance(value, bytes):
            tag = value.decode("utf-8", "replace")
        elif field == 2 and isinstance(value, bytes):
            number = float(struct.unpack("<f", value)[0])
        elif field == 8 and isinstance(value, bytes):
            number = _scalar_tensor(value)
    return tag, number


def _scalar_tensor(message: bytes) -> float | None:
    """The number of a tensor that holds exactly one; null of any other."""
    kind, content = 0, b""
    elements: list[bytes | int] = []
    for field, value in fields(message):
        if field == 1 and isinstance(value, int):
            kind = value
        elif field == 2 and isinstance(value, bytes):
            dimensions = [n for f, inner in fields(value) if f == 2 for g, n in fields(inner) if g == 1]
            if any(n != 1 for n in dimensions):
                return None
        elif field == 4 and isinstance(value, bytes):
            content = value
        elif field in {5, 6, 7, 10}:
            elements.append(value)
    form = _FORMATS.get(kind)
    if form is None:
        return None
    if len(content) == struct.calcsize(form):
        return float(struct.unpack(form, content)[0])
    if len(elements) != 1:
        return None
    (one,) = elements
    if isinstance(one, int):
        return float(one - (1 << 64) if one >= 1 << 63 else one)
    if kind in {_INT32, _INT64}:
        value, end = varint(one, 0)
        return float(value) if end == len(one) else None
    return float(struct.unpack(form, one)[0]) if len(one) == struct.calcsize(form) else None
