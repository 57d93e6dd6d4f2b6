"""The one writer of Parquet parts, for the recorder, for importers and for runs written by hand.

A part is written beside its place (``*.parquet.tmp``), flushed to disk and renamed. Only a profiler's trace is written in
another way, piece by piece (`analyzer/importers/kineto.py`): it may be larger than the memory.

Encodings were chosen by measurement on 280,000 tensor-stat rows (bytes a row, seconds a million rows, one core):
Arrow's default with zstd 27.3 and 0.61; floats split by byte and 64-bit integers as deltas 16.4 and 0.29. Moments of
float32 data have 29 zero bits in each float64, which the split puts side by side.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..columns import Phase, Table
from .seals import SEALED, sealed

Rows = Sequence[Mapping[str, Any]]
"""Rows by columns; a column that a row does not have is null."""

ROW_GROUP_ROWS = 128 * 1024
"""Rows of a row group: DuckDB's own group of vectors, large enough to compress, small enough to be skipped by its
statistics."""

TORN_KEY = b"firstfault.torn_bytes"
"""Key-value metadata of a part: bytes at the end of its segment that held no complete batch."""

THINNED_KEY = b"firstfault.thinned"
"""Key-value metadata of a part: only steps that this number divides were kept where nothing happened; 0: none."""

_ORDER = {"tensor_stats": ("tensor_id", "step", "microbatch", "seq")}


def table_of(table: Table, rows: Rows) -> pa.Table:
    """Rows in the declared schema, phases by number."""

    def value(row: Mapping[str, Any], name: str) -> Any:
        v = row.get(name)
        return int(Phase[v.upper()]) if name == "phase" and isinstance(v, str) else v

    known = {name for row in rows for name in row}
    arrays = [
        pa.array([value(r, c.name) for r in rows], c.type) if c.name in known else pa.nulls(len(rows), c.type)
        for c in table.columns
    ]
    return pa.Table.from_arrays(arrays, schema=table.schema)


def write_part(
    part: Path, name: str, table: pa.Table, metadata: Mapping[bytes, bytes] | None = None, *, durable: bool = True
) -> None:
    """Write rows of table ``name`` as one part with this metadata beside the schema's, so that it appears whole or not at
    all; ``durable``: also after a power cut. Raises OSError and leaves nothing behind."""
    if name in _ORDER:
        table = table.sort_by([(column, "ascending") for column in _ORDER[name]])
    table = table.replace_schema_metadata({**(table.schema.metadata or {}), **(metadata or {}), **SEALED})
    names = [f.name for f in table.schema if f.type in _DICTIONARY_TYPES]
    part.parent.mkdir(parents=True, exist_ok=True)
    tmp = part.with_suffix(".parquet.tmp")
    whole = pa.BufferOutputStream()
    try:
        with tmp.open("wb") as file:
            pq.write_table(
                table,
                whole,
                row_group_size=ROW_GROUP_ROWS,
                compression="zstd",
                compression_level=3,
                write_statistics=True,
                use_dictionary=names,  # pyright: ignore[reportArgumentType] - its stubs know only True and False
                column_encoding={f.name: _ENCODING[f.type] for f in table.schema if f.type in _ENCODING},
                store_schema=True,
                write_page_checksum=True,
            )
            file.writelines(sealed(whole.getvalue().to_pybytes()))
            if durable:
                file.flush()
                os.fsync(file.fileno())
        tmp.rename(part)
    except BaseException:
        tmp.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(part.parent)


_DICTIONARY_TYPES = {pa.string(), pa.int8(), pa.int32()}
_ENCODING = {pa.float64(): "BYTE_STREAM_SPLIT", pa.int64(): "DELTA_BINARY_PACKED"}


def sync_folder(folder: Path) -> None:
    """Make renames and removals in a folder durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
