"""Tell damage from what was written: checksums of JSON records, and of the files of a run that have no place for their own.

A JSON record ends with the checksum of its own content. `checksums.json` lists what has no place for a checksum of its own;
parts of Parquet have a seal (seals.py). All are CRC-32: they find damage by chance, and are no protection from somebody who
wants to deceive.
"""

import json
import os
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

CRC = "crc32"
"""Last key of every JSON record that firstfault writes."""

CHUNK = 2**20


def crc_of(record: Mapping[str, Any]) -> str:
    """Checksum of a record's content, which does not depend on white space. recorder/base/process_notes.py says it too."""
    content = {k: v for k, v in record.items() if k != CRC}
    return f"{zlib.crc32(json.dumps(content, separators=(',', ':')).encode()):08x}"


def with_crc(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record with its checksum."""
    return {**record, CRC: crc_of(record)}


def crc_holds(record: Mapping[str, Any]) -> bool:
    """Whether a record is what was written; True where it was written without a checksum."""
    return CRC not in record or record[CRC] == crc_of(record)


def crc_between(file: BinaryIO, begin: int, end: int) -> int:
    """Checksum of the bytes from ``begin`` to ``end``. Raises OSError."""
    file.seek(begin)
    crc, left = 0, end - begin
    while left > 0:
        piece = file.read(min(CHUNK, left))
        if not piece:
            break
        crc = zlib.crc32(piece, crc)
        left -= len(piece)
    return crc


def crc_of_file(path: Path) -> int:
    """Checksum of a whole file. Raises OSError."""
    with path.open("rb") as file:
        return crc_between(file, 0, os.fstat(file.fileno()).st_size)


def listing_of(run: Path, paths: Iterable[tuple[Path, bool]]) -> dict[str, Any]:
    """What `checksums.json` is to hold of these files, each with whether it needs a checksum. What has gone is left out."""
    files: dict[str, list[int | None]] = {}
    for path, needs in paths:
        try:
            files[path.relative_to(run).as_posix()] = [path.stat().st_size, crc_of_file(path) if needs else None]
        except OSError:
            continue
    return with_crc({"files": dict(sorted(files.items()))})
