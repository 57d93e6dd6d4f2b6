"""Seals of Parquet parts: checksums of their row groups and of their footer.

A seal stands before the footer: bytes that no Parquet reader looks at, because a footer is found from the end of the file.
"""

import os
import struct
import zlib
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from .checksums import crc_between

SEALED = {b"firstfault.sealed": b"1"}
"""Key-value metadata of a part with a seal: without it, a part whose seal was wiped out would be taken for an older one."""

_SEAL = b"FFSEAL1\0"
_COUNT = struct.Struct("<I")
_TAIL = struct.Struct("<I4s")
"""End of a Parquet file: length of the footer, magic."""
_PARQUET = b"PAR1"
_MOST_GROUPS = 2**16

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
        crcs = [crc_between(file, a, b) for a, b in zip([0, *ends], ends, strict=False)]
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
        whole = [i for i, crc in enumerate(crcs) if crc_between(file, begins[i], ends[i]) == crc]
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
