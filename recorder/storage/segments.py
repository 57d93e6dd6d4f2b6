"""Reads back what the recorder itself wrote: journal segments with a torn tail, and columns of parts.

The analyzer has its own reader; this one serves compaction, the exit record and the closing line of a run.
"""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ...schemas import TABLES, read_breadcrumb
from ...schemas.files.layout import Part, breadcrumb_path, parts, segments
from ...schemas.files.step_values import STEP_VALUES, STEP_VALUES_SCHEMA, tables_of


@dataclass(frozen=True, slots=True)
class Segment:
    """The complete batches of one segment; ``torn_bytes`` follow the last of them and cannot be read, and ``misfits`` values did
    not fit their columns."""

    table: pa.Table
    torn_bytes: int
    misfits: int = 0


def read_segment(path: Path, name: str) -> Segment:
    """Every complete batch of a segment of table ``name``, or of STEP_VALUES as they lie there. A tail cut anywhere is dropped
    and counted. Raises OSError."""
    size = path.stat().st_size
    batches: list[pa.RecordBatch] = []
    schema = STEP_VALUES_SCHEMA if name == STEP_VALUES else TABLES[name].schema
    good = 0
    # read at once: a segment is bounded, and a memory map of a file that is being cut kills the reader with SIGBUS
    raw = pa.py_buffer(path.read_bytes())
    source = pa.BufferReader(raw)
    try:
        stream = pa.ipc.open_stream(source)
        schema = stream.schema
        good = source.tell()
        while True:
            batch = stream.read_next_batch()
            batches.append(batch)
            good = source.tell()
    except StopIteration:
        pass  # cut exactly between two batches, or whole
    except (pa.ArrowInvalid, OSError):
        pass  # the torn tail: what follows `good` is counted below
    return Segment(pa.Table.from_batches(batches, schema), max(0, size - good))


def read_tables(path: Path, name: str, names: Collection[str]) -> dict[str, Segment]:
    """Table → its complete rows: of a segment of STEP_VALUES, those of ``names`` of which it has any. Raises OSError."""
    segment = read_segment(path, name)
    if name != STEP_VALUES:
        return {name: segment}
    tables, misfits = tables_of(segment.table, names)
    if (segment.torn_bytes or misfits) and "steps" in names:
        tables.setdefault("steps", TABLES["steps"].schema.empty_table())
    return {
        table: Segment(rows, segment.torn_bytes if table == "steps" else 0, misfits) for table, rows in tables.items()
    }


def read_rows(run: Path, name: str, columns: list[str]) -> pa.Table:
    """``columns`` of a table over all ranks, parts before segments in time order. Unreadable files are left out:
    readers of the whole run report them; who asks here wants what there is."""
    found: list[pa.Table] = []
    done: list[Part] = []
    for part in parts(run, name):
        try:
            found.append(pq.ParquetFile(part.path).read(columns, use_threads=False))
        except (pa.ArrowInvalid, OSError):
            continue
        done.append(part)
    for rank, table, index, path in segments(run):
        if table in {name, STEP_VALUES} and not any(part.holds(rank, index) for part in done):
            try:
                held = read_tables(path, table, {name}).get(name)
                if held is not None:
                    found.append(held.table.select(columns))
            except (KeyError, OSError):
                continue
    schema = TABLES[name].schema
    empty = pa.schema([schema.field(c) for c in columns]).empty_table()
    return pa.concat_tables([t.replace_schema_metadata(None).cast(empty.schema) for t in found]) if found else empty


def completed_steps(run: Path) -> dict[int, int]:
    """Rank → number of completed steps, ranks without one left out."""
    rows = read_rows(run, "steps", ["rank", "step", "completed", "unwatched"])
    done = rows.filter(rows["completed"]).group_by("rank")
    counts = done.aggregate([("step", "count_distinct"), ("step", "max"), ("unwatched", "sum")])
    found: dict[int, int] = {}
    for count in counts.to_pylist():
        rank = count["rank"]
        found[rank] = count["step_count_distinct"] + (count["unwatched_sum"] or 0)
        if count["unwatched_sum"]:  # a killed process has counted more than it has written
            position = read_breadcrumb(breadcrumb_path(run, rank))
            found[rank] += max(position.step - count["step_max"] - 1, 0) if position is not None else 0
    return found


def module_names(run: Path) -> dict[tuple[int, int], str]:
    """(rank, module_id) → module name; the last row wins."""
    rows = read_rows(run, "modules", ["rank", "module_id", "module"])
    return {
        (rank, module_id): module
        for rank, module_id, module in zip(*(rows[c].to_pylist() for c in rows.column_names), strict=True)
    }
