"""W&B's own file, `run-….wandb`: its history into curves, its configuration into the manifest.

A file is a LevelDB log (wandb/sdk/internal/datastore.py): blocks of 32 KiB, each piece with CRC-32, length and kind. A record
is a protobuf message (wandb/proto/wandb_internal.proto): history is field 2, its items have key 1, nested keys 2 and JSON 16.
Not taken: media, tables, summaries, system samples, the console.
"""

import json
import math
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import ImportFileError
from .byte_streams import ByteStream
from .protobuf import DamagedError, fields
from .records import Record, put_records
from .target import RunTarget

_BLOCK = 1 << 15
_HEAD = 7
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_HISTORY, _CONFIG = 2, 5
_OURS = {"_step": "step", "_timestamp": "time", "_runtime": None, "_wandb": None}


def import_wandb(path: Path, target: RunTarget, label: str) -> str:
    """Read the history of a .wandb file into the target. Returns what was found."""
    records: list[Record] = []
    config: dict[str, Any] = {}
    stopped: str | None = None
    with ByteStream(path) as stream:
        try:
            for message in _messages(stream):
                for number, content in fields(message):
                    if number == _HISTORY and isinstance(content, bytes):
                        records.append(_history(content))
                    elif number == _CONFIG and isinstance(content, bytes):
                        config |= {k: v for k, v in _items(content).items() if isinstance(v, int | float | str)}
        except DamagedError as e:
            stopped = str(e)
    if stopped is not None:
        message = (
            f"{path.name} cannot be read beyond its first {len(records)} rows ({stopped}); what is before was imported."
        )
        target.event("file-cut", message)
    if not records:
        raise ImportFileError(
            f"{path}: holds no history" + (f" ({stopped})" if stopped else "; wandb.log was never called")
        )
    target.facts.setdefault("config", config)
    return put_records(path, records, target, label, "wandb")


def _messages(stream: ByteStream) -> Iterator[bytes]:
    parts: list[bytes] = []
    first = True
    while block := stream.read(_BLOCK):
        at = _HEAD if first else 0
        first = False
        while len(block) - at >= _HEAD:
            check, length, kind = struct.unpack_from("<IHB", block, at)
            if kind == 0 and length == 0:
                break  # the rest of the block is padding
            data = block[at + _HEAD : at + _HEAD + length]
            if len(data) < length:
                raise DamagedError("it breaks off")
            if kind not in {_FULL, _FIRST, _MIDDLE, _LAST} or zlib.crc32(data, zlib.crc32(bytes((kind,)))) != check:
                raise DamagedError("a record does not agree with its checksum")
            at += _HEAD + length
            parts = [data] if kind in {_FULL, _FIRST} else [*parts, data]
            if kind in {_FULL, _LAST}:
                yield b"".join(parts)


def _history(message: bytes) -> Record:
    record: Record = {}
    for name, value in _items(message).items():
        for key, number in _flat(name, value):
            shown = _OURS.get(key, key)
            if shown is not None:
                record[shown] = number
    for number, content in fields(message):
        if number == 2 and isinstance(content, bytes):
            record.setdefault("step", next((n for f, n in fields(content) if f == 1), 0))
    return record


def _flat(name: str, value: Any) -> Iterator[tuple[str, float]]:
    if isinstance(value, dict) and "_type" not in value:
        for key, inner in value.items():
            yield from _flat(f"{name}/{key}", inner)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield name, float(value)
    elif value in ("NaN", "Infinity", "-Infinity"):
        yield name, math.nan if value == "NaN" else math.inf


def _items(message: bytes) -> dict[str, Any]:
    """Names and values of the items of a history or a configuration; nested keys are joined by /."""
    found: dict[str, Any] = {}
    for number, item in fields(message):
        if number != 1 or not isinstance(item, bytes):
            continue
        key, nested, text = "", [], ""
        for field, value in fields(item):
            if field == 1:
                key = value.decode("utf-8", "replace")
            elif field == 2:
                nested.append(value.decode("utf-8", "replace"))
            elif field == 16:
                text = value.decode("utf-8", "replace")
        try:
            found[key or "/".join(nested)] = json.loads(text)
        except (ValueError, RecursionError):
            continue  # an item without a value
    return found
