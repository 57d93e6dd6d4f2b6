"""Reads back what the recorder itself wrote: journal segments with a torn tail, and columns of parts.

The analyzer has its own reader; this one serves compaction, the exit record and the closing line of a run.
"""

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ..schemas import TABLES
from ..schemas.layout import Part, parts, segments


@dataclass(frozen=True, slots=True)
class Segment:
    """The complete batches of one segment; ``torn_bytes`` follow the last of them and cannot be read."""

    table: pa.Table
    torn_bytes: int


def read_segment(path: Path, name: str) -> Segment:
    """Every complete batch of a segment of table ``name``. A tail cut anywhere is dropped and counted. Raises
    OSError."""
    size = path.stat().st_size
    batches: list[pa.RecordBatch] = []
    schema = TABLES[name].schema
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
        if table == name and not any(part.holds(rank, index) for part in done):
            try:
                found.append(read_segment(path, name).table.select(columns))
            except (KeyError, OSError):
                continue
    schema = TABLES[name].schema
    empty = pa.schema([schema.field(c) for c in columns]).empty_table()
    return pa.concat_tables([t.replace_schema_metadata(None).cast(empty.schema) for t in found]) if found else empty


def completed_steps(run: Path) -> dict[int, int]:
    """Rank → number of completed steps, ranks without one left out."""
    rows = read_rows(run, "steps", ["rank", "step", "completed"])
    counts = rows.filter(rows["completed"]).group_by("rank").aggregate([("step", "count_distinct")])
    return dict(zip(counts["rank"].to_pylist(), counts["step_count_distinct"].to_pylist(), strict=True))


def module_names(run: Path) -> dict[tuple[int, int], str]:
    """(rank, module_id) → module name; the last row wins."""
    rows = read_rows(run, "modules", ["rank", "module_id", "module"])
    return {
        (rank, module_id): module
        for rank, module_id, module in zip(*(rows[c].to_pylist() for c in rows.column_names), strict=True)
    }
