"""Merges small parts of one table into larger ones while a run goes on, so that a long run stays a few files a table.

How nothing is lost or seen twice, wherever it is cut off:
1. The merged part is written beside its place, flushed to disk and renamed to ``part-<first>-<last>``: it is there whole or
   not at all.
2. From that rename on readers ignore every part and segment whose number lies in the range; before it they do not know of
   the merged part.
3. Only later are the parts that it replaces removed: after a grace, because a reader may have listed them, or at the end.
A range is merged only if no segment with rows of the table lies in it still: one that could not be made a part yet would be
hidden.
"""

import math
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ...schemas import TABLES
from ...schemas.files.layout import Part, merged_away, part_path, parts, segments
from ...schemas.files.parts import THINNED_KEY, TORN_KEY, sync_folder, write_part
from ...schemas.files.step_values import STEP_VALUES
from ..base.errors import CompactionError

FANOUT = 8
"""So many neighbours of one size class become one part: a row is rewritten once for each power of eight."""

MOST_BYTES = 32 * 2**20
"""A merged part is not larger."""

MOST_ROWS = 512 * 1024
"""Nor has it more rows: about 50 MB while it is being sorted, beside a training that may need its memory."""

GRACE_S = 60.0
"""Replaced parts stay for this long while the run goes on, for readers that have listed them."""


def merge(run: Path, *, first: int = 0, finished: bool = False) -> int:
    """Merge parts from number ``first`` on; returns how many parts were merged away.

    While the run goes on, FANOUT neighbours of one size class at a time; at its end whatever neighbours fit into one. Raises
    CompactionError where a part could not be written: all others are done, and nothing is lost.
    """
    merged = 0
    failures: list[str] = []
    waiting = {(rank, table, index) for rank, table, index, _ in segments(run)}
    for table in TABLES:
        for group in _groups([p for p in parts(run, table) if p.first >= first], finished=finished):
            rank = group[0].rank
            numbers = range(group[0].first, group[-1].last + 1)
            if any((rank, name, index) in waiting for index in numbers for name in (table, STEP_VALUES)):
                continue
            try:
                _merge_group(run, table, group)
                merged += len(group)
            except (OSError, pa.ArrowException) as e:
                failures.append(f"{group[0].path}: {e}")
        try:
            _remove_replaced(run, table, 0.0 if finished else GRACE_S)
        except OSError as e:
            failures.append(f"{run / table}: {e}")
    if merged:
        pa.default_memory_pool().release_unused()
    if failures:
        raise CompactionError(
            f"{len(failures)} group(s) of parts could not be merged; they stay as they are. First: {failures[0]}"
        )
    return merged


def _groups(found: list[Part], *, finished: bool) -> list[list[Part]]:
    """Neighbours that become one part each."""
    groups: list[list[Part]] = []
    group: list[Part] = []
    taken = rows = 0
    for part in found:
        size = part.path.stat().st_size
        count = _rows_of(part) if size <= MOST_BYTES // 2 else MOST_ROWS  # large enough as it is
        joins = (
            group
            and group[0].rank == part.rank
            and (finished or _size_class(group[0]) == _size_class(part))
            and (finished or len(group) < FANOUT)
            and taken + size <= MOST_BYTES
            and rows + count <= MOST_ROWS
        )
        if not joins:
            groups.append(group)
            group, taken, rows = [], 0, 0
        group.append(part)
        taken, rows = taken + size, rows + count
    groups.append(group)
    return [g for g in groups if len(g) >= (2 if finished else FANOUT)]


def _rows_of(part: Part) -> int:
    try:
        with pq.ParquetFile(part.path) as file:
            return file.metadata.num_rows
    except (OSError, pa.ArrowException):
        return MOST_ROWS + 1  # damaged since: left alone, for the reader to report


def _size_class(part: Part) -> int:
    """Power of FANOUT in the number of segments that a part stands for."""
    width, power = part.last - part.first + 1, 0
    while width >= FANOUT:
        width, power = width // FANOUT, power + 1
    return power


def _merge_group(run: Path, table: str, group: list[Part]) -> None:
    schema = TABLES[table].schema
    pieces: list[pa.Table] = []
    metadata: dict[bytes, bytes] = {}
    torn = 0
    levels: list[int] = []
    for part in group:
        with pq.ParquetFile(part.path) as file:
            own: dict[bytes, bytes] = file.schema_arrow.metadata or {}
            torn += int(own.get(TORN_KEY, b"0"))
            metadata |= own
            levels.append(int(own.get(THINNED_KEY, b"1")))
            pieces.append(file.read(use_threads=False).replace_schema_metadata(schema.metadata))
    target = part_path(run, group[0].rank, table, group[0].first, group[-1].last)
    rows = pa.concat_tables(pieces, promote_options="default")
    if levels != [1] * len(levels):  # thinned as much as all of them at least are, so that it can be thinned again
        metadata[THINNED_KEY] = str(min(levels, key=lambda every: every or math.inf)).encode()
    write_part(target, table, rows, metadata | {TORN_KEY: str(torn).encode()})


def _remove_replaced(run: Path, table: str, grace_s: float) -> None:
    """Remove parts that a merged one holds, once it is older than the grace."""
    replaced = merged_away(run, table)
    if not replaced:
        return
    kept = parts(run, table)
    removed: set[Path] = set()
    for path in replaced:
        by = next(p.path for p in kept if p.path.parent == path.parent and _covers(p, path))
        if time.time() - by.stat().st_mtime >= grace_s:
            path.unlink()
            removed.add(path.parent)
    for folder in removed:
        sync_folder(folder)


def _covers(part: Part, path: Path) -> bool:
    index = int(path.stem.split("-")[1])
    return part.first <= index <= part.last
