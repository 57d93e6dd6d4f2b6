"""Reads back what the recorder itself wrote: journal segments with a torn tail, and columns of parts.

The analyzer has its own reader; this one serves compaction, the exit record and the closing line of a run.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from ...schemas import TABLES, read_breadcrumb
from ...schemas.files.layout import Part, breadcrumb_path, parts, rank_of, segments, unwatched_rows_path
from ...schemas.files.segments import read_records
from ...schemas.files.step_values import STEP_VALUES, STEP_VALUES_SCHEMA, Mark, Row, tables_of
from ...schemas.files.unwatched_rows import read_unwatched_rows, rows_after


@dataclass(frozen=True, slots=True)
class Segment:
    """The sound records of one segment.

    ``torn_bytes`` follow the last of them and cannot be read. ``misfits`` values did not fit their columns. ``damaged`` records
    are missing, or are not what was written.
    """

    table: pa.Table
    torn_bytes: int
    misfits: int = 0
    damaged: int = 0
    marks: Sequence[Mark] = ()


def read_segment(path: Path, name: str, marks: Sequence[Mark] = ()) -> Segment:
    """Every sound record of a segment of table ``name``, or of STEP_VALUES as they lie there. A tail cut anywhere is dropped
    and counted. Raises OSError."""
    schema = STEP_VALUES_SCHEMA if name == STEP_VALUES else TABLES[name].schema
    # read at once: a segment is bounded, and a memory map of a file that is being cut kills the reader with SIGBUS
    raw = path.read_bytes()
    try:
        found = read_records(raw, schema, marks)
    except (pa.ArrowException, ValueError):
        return Segment(schema.empty_table(), len(raw))
    return Segment(found.table, found.torn_bytes, 0, found.lost, found.marks)


def read_tables(path: Path, name: str, names: Collection[str], marks: Sequence[Mark] = ()) -> dict[str, Segment]:
    """Table → its sound rows: of a segment of STEP_VALUES, those of ``names`` of which it has any. Raises OSError."""
    segment = read_segment(path, name, marks)
    if name != STEP_VALUES:
        return {name: segment}
    tables, misfits = tables_of(segment.table, names)
    if (segment.torn_bytes or misfits or segment.damaged) and "steps" in names:
        tables.setdefault("steps", TABLES["steps"].schema.empty_table())
    return {
        table: Segment(
            rows,
            segment.torn_bytes if table == "steps" else 0,
            misfits,
            segment.damaged if table == "steps" else 0,
            segment.marks,
        )
        for table, rows in tables.items()
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
    rows = read_rows(run, "steps", ["rank", "step", "completed"])
    counts = rows.filter(rows["completed"]).group_by("rank").aggregate([("step", "count_distinct")])
    found = {c["rank"]: c["step_count_distinct"] for c in counts.to_pylist()}
    rows = read_rows(run, "unwatched_steps", ["rank", "steps"])
    for c in rows.group_by("rank").aggregate([("steps", "sum")]).to_pylist():
        found[c["rank"]] = found.get(c["rank"], 0) + c["steps_sum"]
    for rank, steps in counted_steps(run).items():
        found[rank] = found.get(rank, 0) + steps
    return found


def counted_steps(run: Path) -> dict[int, int]:
    """Rank → steps that no table knows and its breadcrumb has counted: a process that leaves steps unwatched has always made
    more than it has written. Ranks without an unwatched step are left out."""
    found: dict[int, int] = {}
    for rank, known in _last_of_unwatched(run).items():
        position = read_breadcrumb(breadcrumb_path(run, rank))
        found[rank] = 0 if position is None else max(position.step - known - 1, 0)
    return found


def rows_of_counted_steps(run: Path) -> dict[int, list[Row]]:
    """Rank → rows of `unwatched_steps` for what ``counted_steps`` counts: those that the process had made, and one for the steps
    that have none. Ranks without any are left out."""
    found: dict[int, list[Row]] = {}
    for rank, known in _last_of_unwatched(run).items():
        made, _ = read_unwatched_rows(unwatched_rows_path(run, rank))
        rows = [{"rank": rank, **msgspec.structs.asdict(row)} for row in rows_after(made, known)]
        last = rows[-1]["step"] if rows else known
        position = read_breadcrumb(breadcrumb_path(run, rank))
        if position is not None and position.step - 1 > last:
            left = {
                "step": position.step - 1,
                "time_ns": position.time_ns,
                "steps": position.step - 1 - last,
                "loss": None,
            }
            rows.append({"rank": rank, **left})
        if any(row["steps"] for row in rows):
            found[rank] = rows
    return found


def _last_of_unwatched(run: Path) -> dict[int, int]:
    """Rank → the last step that a table knows, of ranks that have unwatched steps."""
    rows = read_rows(run, "steps", ["rank", "step", "completed"])
    ended = rows.filter(rows["completed"]).group_by("rank").aggregate([("step", "max")])
    last = {c["rank"]: c["step_max"] for c in ended.to_pylist()}
    rows = read_rows(run, "unwatched_steps", ["rank", "step"])
    found = {c["rank"]: c["step_max"] for c in rows.group_by("rank").aggregate([("step", "max")]).to_pylist()}
    for path in unwatched_rows_path(run, 0).parent.glob("*.rows"):
        rank = rank_of(path.stem)
        if rank is not None and rows_after(read_unwatched_rows(path)[0], last.get(rank, -1)):
            found.setdefault(rank, -1)  # it was killed in the first stretch of them
    return {rank: max(step, last.get(rank, -1)) for rank, step in found.items()}


def module_names(run: Path) -> dict[tuple[int, int], str]:
    """(rank, module_id) → module name; the last row wins."""
    rows = read_rows(run, "modules", ["rank", "module_id", "module"])
    return {
        (rank, module_id): module
        for rank, module_id, module in zip(*(rows[c].to_pylist() for c in rows.column_names), strict=True)
    }
