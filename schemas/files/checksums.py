"""Tell damage from what was written: checksums of JSON records, of Parquet parts, and of the other files of a run.

A JSON record ends with the checksum of its own content. A part has a seal before its footer: bytes that no Parquet reader looks
at, because a footer is found from the end of the file. `checksums.json` lists what has no place for a checksum of its own. All
are CRC-32: they find damage by chance, and are no protection from somebody who wants to deceive.
"""

import json
import os
import struct
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

CRC = "crc32"
"""Last key of every JSON record that firstfault writes."""

CHUNK = 2**20

SEALED = {b"firstfault.sealed": b"1"}
"""Key-value metadata of a part with a seal: without it, a part whose seal was wiped out would be taken for an older one."""

_SEAL = b"FFSEAL1\0"
_COUNT = struct.Struct("<I")
_TAIL = struct.Struct("<I4s")
"""End of a Parquet file: length of the footer, magic."""
_PARQUET = b"PAR1"
_MOST_GROUPS = 2**16


# -- JSON ---------------------------------------------------------------------------------------------------------------------


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


# -- Parquet ------------------------------------------------------------------------------------------------------------------

SealState = Literal["whole", "unsealed", "rows", "footer"]
"""``rows``: the footer holds, some row groups do not. ``footer``: nothing of the file can be trusted."""


class Seal(NamedTuple):
    """What the seal of a part says: how it stands, and the row groups that are whole."""

    state: SealState
    whole_groups: list[int]


def sealed(raw: bytes) -> list[bytes | memoryview]:
    """A Parquet file with its seal, in pieces to be written one after the other."""
    view = memoryview(raw)
    at = len(raw) - _TAIL.size - _TAIL.unpack_from(raw, len(raw) - _TAIL.size)[0]
    ends = _group_ends(pq.read_metadata(pa.BufferReader(raw)), at)
    crcs = [zlib.crc32(view[a:b]) for a, b in zip([0, *ends], ends, strict=False)]
    return [view[:at], _seal_of(crcs, zlib.crc32(view[at:])), view[at:]]


def seal_file(path: Path) -> None:
    """Put the seal into a finished Parquet file that is too large for memory, unless it has one. Raises OSError."""
    with path.open("r+b") as file:
        footer_at = _footer_at(file)
        if footer_at is None:
            return
        if _find_seal(file, footer_at) is not None:
            return
        file.seek(footer_at)
        footer = file.read()
        ends = _group_ends(pq.read_metadata(path), footer_at)
        crcs = [_crc_between(file, a, b) for a, b in zip([0, *ends], ends, strict=False)]
        file.seek(footer_at)
        file.write(_seal_of(crcs, zlib.crc32(footer)) + footer)


def read_seal(path: Path, *, rows: bool = True) -> Seal:
    """How a part stands; without ``rows`` only its footer is looked at. Raises OSError."""
    with path.open("rb") as file:
        footer_at = _footer_at(file)
        if footer_at is None:
            return Seal("footer", [])
        file.seek(footer_at)
        footer = file.read()
        found = _find_seal(file, footer_at)
        if found is None:
            return Seal("footer" if _says_sealed(path) else "unsealed", [])
        crcs, of_footer, seal_at = found
        if zlib.crc32(footer) != of_footer:
            return Seal("footer", [])
        if not rows:
            return Seal("whole", list(range(len(crcs))))
        try:
            ends = _group_ends(pq.read_metadata(path), seal_at)
        except (pa.ArrowException, OSError):
            return Seal("footer", [])
        if len(ends) != len(crcs):
            return Seal("footer", [])
        begins = [0, *ends]
        whole = [i for i, crc in enumerate(crcs) if _crc_between(file, begins[i], ends[i]) == crc]
        return Seal("whole" if len(whole) == len(crcs) else "rows", whole)


def _says_sealed(path: Path) -> bool:
    try:
        return SEALED.keys() <= (pq.read_metadata(path).metadata or {}).keys()
    except (pa.ArrowException, OSError, ValueError):
        return False  # no footer at all: its reader says so


def _seal_of(crcs: list[int], of_footer: int) -> bytes:
    body = struct.pack(f"<{len(crcs)}II", *crcs, of_footer)
    return body + struct.pack("<II", zlib.crc32(body), len(crcs)) + _SEAL


def _find_seal(file: BinaryIO, footer_at: int) -> tuple[list[int], int, int] | None:
    """Checksums of the row groups and of the footer, and where the seal begins; None where there is none."""
    fixed = 8 + len(_SEAL)
    if footer_at < fixed:
        return None
    file.seek(footer_at - fixed)
    own, count, magic = struct.unpack(f"<II{len(_SEAL)}s", file.read(fixed))
    size = 4 * (count + 1)
    if magic != _SEAL or count > _MOST_GROUPS or size > footer_at - fixed:
        return None
    file.seek(footer_at - fixed - size)
    body = file.read(size)
    if zlib.crc32(body) != own:
        return None
    *crcs, of_footer = struct.unpack(f"<{count + 1}I", body)
    return crcs, of_footer, footer_at - fixed - size


def _footer_at(file: BinaryIO) -> int | None:
    size = os.fstat(file.fileno()).st_size
    if size < _TAIL.size + len(_PARQUET):
        return None
    file.seek(size - _TAIL.size)
    length, magic = _TAIL.unpack(file.read(_TAIL.size))
    at = size - _TAIL.size - length
    return at if magic == _PARQUET and at >= len(_PARQUET) else None


def _group_ends(metadata: pq.FileMetaData, end: int) -> list[int]:
    """Where each row group ends; what follows the last one counts as a part of it. One stretch in a file without a row."""
    ends: list[int] = []
    for i in range(metadata.num_row_groups):
        group = metadata.row_group(i)
        chunks = [group.column(c) for c in range(group.num_columns)]
        starts = [
            (c.data_page_offset if c.dictionary_page_offset is None else c.dictionary_page_offset, c) for c in chunks
        ]
        ends.append(max((start + c.total_compressed_size for start, c in starts), default=0))
    return [*ends[:-1], end]


def _crc_between(file: BinaryIO, begin: int, end: int) -> int:
    file.seek(begin)
    crc, left = 0, end - begin
    while left > 0:
        piece = file.read(min(CHUNK, left))
        if not piece:
            break
        crc = zlib.crc32(piece, crc)
        left -= len(piece)
    return crc


# -- all other files ----------------------------------------------------------------------------------------------------------


def crc_of_file(path: Path) -> int:
    """Checksum of a whole file. Raises OSError."""
    with path.open("rb") as file:
        return _crc_between(file, 0, os.fstat(file.fileno()).st_size)


def listing_of(run: Path, paths: Iterable[tuple[Path, bool]]) -> dict[str, Any]:
    """What `checksums.json` is to hold of these files, each with whether it needs a checksum. What has gone is left out."""
    files: dict[str, list[int | None]] = {}
    for path, needs in paths:
        try:
            files[path.relative_to(run).as_posix()] = [path.stat().st_size, crc_of_file(path) if needs else None]
        except OSError:
            continue
    return with_crc({"files": dict(sorted(files.items()))})
