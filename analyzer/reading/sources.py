"""Which files of a run hold which table, each checked before DuckDB sees it.

A torn or foreign file is reported and left out, so that the rest stays readable; a file of a newer schema stops the
reading, because silently ignoring what it means could turn a fault into a healthy verdict.
"""

import errno
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ...schemas import SCHEMA_VERSION, TABLES, VERSION_KEY, Table
from ...schemas.files.layout import Part, parts, segments
from ...schemas.files.safe_files import MOST_SEGMENT, check_file, read_file
from ...schemas.files.step_values import STEP_VALUES, STEP_VALUES_SCHEMA, tables_of
from ..errors import UnreadableRunError

_TRIES = 10


@dataclass(frozen=True, slots=True)
class Problem:
    """A file that could not be read, or not to its end. ``rows_lost`` is null where nobody can know."""

    path: str
    what: str
    rows_lost: int | None = None


@dataclass(slots=True)
class Source:
    """Where one table comes from: Parquet parts with the columns each has, then what only the journal has."""

    table: Table
    parts: list[tuple[Path, frozenset[str]]] = field(default_factory=list)
    journal: list[pa.Table] = field(default_factory=list)

    @property
    def size_bytes(self) -> int:
        """Bytes of its parts."""
        return sum(path.stat().st_size for path, _ in self.parts)


def find_sources(run: Path, *, ended: bool) -> tuple[dict[str, Source], list[Problem]]:
    """Sources of every declared table, and what could not be read.

    ``ended`` says that the run closed its files itself, so a torn journal is a loss and not merely the present moment.
    Segments are listed before parts: one that becomes a part meanwhile is then found missing, and the search begins anew.
    Raises UnreadableRunError for a file of a newer schema.
    """
    for _ in range(_TRIES):
        try:
            return _find_sources(run, ended=ended)
        except FileNotFoundError:
            continue
    raise UnreadableRunError(f"{run}: its files change faster than they can be read; try again in a minute")


def _find_sources(run: Path, *, ended: bool) -> tuple[dict[str, Source], list[Problem]]:
    sources = {name: Source(table) for name, table in TABLES.items()}
    problems: list[Problem] = []
    found = segments(run)
    done: dict[str, list[Part]] = {name: [] for name in TABLES}
    for name, source in sources.items():
        for part in parts(run, name):
            columns = _check_part(run, part.path, source.table, problems)
            if columns is not None:
                source.parts.append((part.path, columns))
                done[name].append(part)
    newest: dict[tuple[str, int], int] = {}
    for rank, name, index, _ in found:
        newest[name, rank] = max(index, newest.get((name, rank), -1))
    for rank, name, index, path in found:
        wanted = [table for table in done if name in {table, STEP_VALUES}]
        wanted = [table for table in wanted if not any(part.holds(rank, index) for part in done[table])]
        if not wanted:
            continue
        tail_is_normal = not ended and index == newest[name, rank]
        held = _read_segment(run, path, name, problems, tail_is_normal=tail_is_normal)
        if held is None:
            continue
        for table, rows in (_apart(path, held, wanted, problems) if name == STEP_VALUES else {name: held}).items():
            if rows.num_rows:
                sources[table].journal.append(_in_declared_shape(rows, TABLES[table]))
    return sources, problems


def _check_part(run: Path, path: Path, table: Table, problems: list[Problem]) -> frozenset[str] | None:
    """Declared columns that a part has, or None (and a problem) where it cannot serve as one."""
    try:
        check_file(path, run)
        with pq.ParquetFile(path) as file:
            schema = file.schema_arrow
    except FileNotFoundError:
        if path.is_symlink():
            problems.append(Problem(str(path), "it is a link to nothing"))
            return None
        raise
    except (OSError, pa.ArrowException) as e:
        problems.append(Problem(str(path), _why(e)))
        return None
    wrong = _wrong(path, schema, table.schema)
    if wrong:
        problems.append(Problem(str(path), wrong))
        return None
    return frozenset(schema.names) & frozenset(table.column_names)


def _apart(path: Path, values: pa.Table, wanted: list[str], problems: list[Problem]) -> dict[str, pa.Table]:
    """Table → its rows among the values of whole steps."""
    tables, misfits = tables_of(values, wanted)
    if misfits:
        problems.append(Problem(str(path), f"{misfits} value(s) do not fit their columns; they are null"))
    return tables


def _read_segment(
    run: Path, path: Path, name: str, problems: list[Problem], *, tail_is_normal: bool
) -> pa.Table | None:
    """Every complete batch of a journal segment; a torn tail ends it."""
    try:
        raw = read_file(path, run, MOST_SEGMENT)
    except FileNotFoundError:
        if path.is_symlink():
            problems.append(Problem(str(path), "it is a link to nothing"))
            return None
        raise
    except OSError as e:
        problems.append(Problem(str(path), f"cannot be read ({e.strerror})"))
        return None
    if not raw:
        return None
    batches: list[pa.RecordBatch] = []
    torn: str | None = None
    try:
        reader = pa.ipc.open_stream(pa.py_buffer(raw))
        declared = STEP_VALUES_SCHEMA if name == STEP_VALUES else TABLES[name].schema
        wrong = _wrong(path, reader.schema, declared)
        if wrong:
            problems.append(Problem(str(path), wrong))
            return None
        while True:
            try:
                batches.append(reader.read_next_batch())
            except StopIteration:
                break
    except (OSError, pa.ArrowException) as e:
        torn = _one_line(e)
    if torn and not tail_is_normal:
        problems.append(Problem(str(path), f"journal torn after {len(batches)} complete appends: {torn}"))
    if not batches:
        return None
    return pa.Table.from_batches(batches)


def read_part(path: Path, table: Table, columns: frozenset[str]) -> pa.Table:
    """One part as a whole in the declared shape, for the small tables that are deduplicated."""
    with pq.ParquetFile(path) as file:
        return _in_declared_shape(file.read(columns=[c for c in table.column_names if c in columns]), table)


def _in_declared_shape(rows: pa.Table, table: Table) -> pa.Table:
    """Columns in declared order; what is missing becomes null, what is unknown goes."""
    present = set(rows.schema.names)
    arrays = [
        rows.column(c.name).cast(c.type).combine_chunks() if c.name in present else pa.nulls(rows.num_rows, c.type)
        for c in table.columns
    ]
    return pa.table(arrays, names=[c.name for c in table.columns])


def _wrong(path: Path, schema: pa.Schema, declared: pa.Schema) -> str | None:
    """Why a file cannot be read as what is declared; None if it can."""
    metadata: dict[bytes, bytes] = schema.metadata or {}
    raw = metadata.get(VERSION_KEY)
    if raw is None or not raw.isdigit():
        return "not written by firstfault: no schema version in its metadata"
    if int(raw) > SCHEMA_VERSION:
        raise UnreadableRunError(
            f"{path}: written by a newer firstfault (schema {int(raw)}, this one reads up to {SCHEMA_VERSION}); "
            "upgrade firstfault"
        )
    for column in declared:
        index = schema.get_field_index(column.name)
        if index >= 0 and not _same(schema.field(index).type, column.type):
            return f"column {column.name} is {schema.field(index).type}, not {column.type}"
    return None


def _same(found: pa.DataType, declared: pa.DataType) -> bool:
    if pa.types.is_dictionary(found):
        found = found.value_type
    if pa.types.is_large_string(found):
        found = pa.string()
    if pa.types.is_list(found) and pa.types.is_list(declared):
        return _same(found.value_type, declared.value_type)
    return found == declared


def _one_line(e: BaseException) -> str:
    return (str(e).splitlines() or [type(e).__name__])[0]


def _why(e: BaseException) -> str:
    """Why a part cannot serve: what was refused before it was opened, else what Parquet says of it."""
    if isinstance(e, OSError) and e.errno in {errno.EINVAL, errno.ELOOP} and (e.strerror or "").startswith("it is "):
        return str(e.strerror)
    return f"torn or not Parquet: {_one_line(e)}"
