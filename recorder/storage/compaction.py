"""Turns finished journal segments into Parquet parts.

Parts k hold the rows of segments k; each table has its own. Segments k of a rank are finished when the rank has one with a
higher index, or has ended. A part is written
beside its place (``*.parquet.tmp``), flushed to disk, renamed, and only then is the segment removed: at every moment
each row is in a complete part or in the journal, and where it is in both the part wins.
"""

import os
from pathlib import Path

import psutil
import pyarrow as pa

from ...schemas import TABLES, read_breadcrumb
from ...schemas.files.layout import breadcrumb_path, part_path, parts, segments
from ...schemas.files.parts import TORN_KEY, write_part
from ...schemas.files.step_values import STEP_VALUES
from ..base.errors import CompactionError
from .segments import Segment, read_tables

KEPT_SUFFIX = ".misfits"
"""Of a segment with values that did not fit their columns and are null in the parts: it stays, under this name, for whoever looks
for them."""


def compact(run: Path, *, finished: bool) -> int:
    """Write a part for every finished segment of ``run`` and remove the segment; returns the number of parts written.

    ``finished`` says that the training has ended, so that last segments count too, except those of a rank whose
    process is still alive. Raises CompactionError, after trying all segments, when some could not be written (disk
    full, say): these stay in the journal and the next call tries again.
    """
    found = segments(run)
    last: dict[int, int] = {}
    for rank, _, index, _ in found:
        last[rank] = max(last.get(rank, -1), index)
    open_ranks = {rank for rank in last if not finished or _still_writing(run, rank)}
    done = {table: parts(run, table) for table in TABLES} if found else {}
    together: dict[tuple[int, int], list[tuple[str, Path]]] = {}
    for rank, name, index, path in found:
        if (name in TABLES or name == STEP_VALUES) and not (index == last[rank] and rank in open_ranks):
            together.setdefault((rank, index), []).append((name, path))
    written = 0
    failures: list[str] = []
    for (rank, index), streams in together.items():
        missing = [table for table in TABLES if not any(part.holds(rank, index) for part in done[table])]
        try:
            rows = _rows_of(streams, missing)
        except (OSError, pa.ArrowException) as e:
            failures.append(f"{streams[0][1]}: {e}")
            continue
        refused: set[str] = set()
        for table, segment in rows.items():
            part = part_path(run, rank, table, index)
            try:
                write_part(part, table, segment.table, {TORN_KEY: str(segment.torn_bytes).encode()})
                written += 1
            except (OSError, pa.ArrowException) as e:
                failures.append(f"{part}: {e}")
                refused.add(table)
        try:
            _remove(
                [
                    (name, path)
                    for name, path in streams
                    if name not in refused and not (refused and name == STEP_VALUES)
                ],
                keep=any(segment.misfits for segment in rows.values()),
            )
        except OSError as e:
            failures.append(f"{e.filename}: {e.strerror}")
    if written:
        pa.default_memory_pool().release_unused()  # the training may need it
    if failures:
        raise CompactionError(
            f"{len(failures)} part(s) could not be written, their rows stay in the journal; free some space. "
            f"First: {failures[0]}"
        )
    return written


def _remove(streams: list[tuple[str, Path]], *, keep: bool) -> None:
    """Segments whose rows are in parts; with ``keep`` values of whole steps go out of the readers' way only. Raises OSError."""
    for name, path in streams:
        if keep and name == STEP_VALUES:
            path.rename(path.with_suffix(KEPT_SUFFIX))
        else:
            path.unlink()


def _rows_of(streams: list[tuple[str, Path]], tables: list[str]) -> dict[str, Segment]:
    """Table → all its rows in segments of one number, of those of ``tables`` that any of the segments may hold."""
    rows: dict[str, Segment] = {}
    for name, path in streams:
        for table, held in read_tables(path, name, tables).items() if name == STEP_VALUES or name in tables else ():
            before = rows.get(table)
            if before is None:
                rows[table] = held
            else:
                both = pa.concat_tables([before.table, held.table.cast(before.table.schema)])
                rows[table] = Segment(both, before.torn_bytes + held.torn_bytes, before.misfits + held.misfits)
    return rows


def _still_writing(run: Path, rank: int) -> bool:
    """Whether the process that recorded ``rank`` is another one than this and alive: a child that outlived the
    script, say."""
    position = read_breadcrumb(breadcrumb_path(run, rank))
    if position is None or position.pid == os.getpid():
        return False
    try:
        return psutil.Process(position.pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
