"""Which files of a run hold which table, each checked before DuckDB sees it.

A torn or foreign file is reported and left out, so that the rest stays readable; a file of a newer schema stops the
reading, because silently ignoring what it means could turn a fault into a healthy verdict.
"""

import errno
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from ...schemas import SCHEMA_VERSION, TABLES, VERSION_KEY, Table
from ...schemas.files.layout import Part, parts, rank_of, segments, unwatched_rows_path
from ...schemas.files.safe_files import MOST_SEGMENT, check_file, read_file
from ...schemas.files.seals import read_seal
from ...schemas.files.segments import Records, bytes_written, missing_at_end, read_records
from ...schemas.files.step_values import STEP_VALUES, STEP_VALUES_SCHEMA, Mark, tables_of
from ...schemas.files.unwatched_rows import read_unwatched_rows, rows_after
from ..errors import UnreadableRunError, first_line

_TRIES = 10

VERIFIED_BYTES = 4 * 2**30
"""Size of all parts up to which every byte is checked: some seconds, where diagnosing takes minutes."""

NOT_VERIFIED = "its parts are too large to check every byte at each reading; `firstfault check` does"


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


def find_sources(
    run: Path, *, ended: bool, newest_schema: int = SCHEMA_VERSION + 1, every_byte: bool = False
) -> tuple[dict[str, Source], list[Problem]]:
    """Sources of every declared table, and what could not be read.

    ``ended`` says that the run closed its files itself, so a torn journal is a loss and not merely the present moment.
    ``newest_schema`` is the schema version of its run.json, where that is known: a file of a newer one is then damaged.
    ``every_byte``: also of parts that are too large to be checked at each reading.
    Segments are listed before parts: one that becomes a part meanwhile is then found missing, and the search starts again.
    Raises UnreadableRunError for a file of a newer schema.
    """
    for _ in range(_TRIES):
        try:
            verify = (
                every_byte
                or sum(part.path.stat().st_size for name in TABLES for part in parts(run, name)) <= VERIFIED_BYTES
            )
            sources, problems = _find_sources(run, ended=ended, verify=verify, newest_schema=newest_schema)
        except FileNotFoundError:
            continue
        if not verify:
            problems.append(Problem(str(run), NOT_VERIFIED))
        return sources, problems
    raise UnreadableRunError(f"{run}: its files change faster than they can be read; try again in a minute")


def _find_sources(
    run: Path, *, ended: bool, verify: bool, newest_schema: int
) -> tuple[dict[str, Source], list[Problem]]:
    sources = {name: Source(table) for name, table in TABLES.items()}
    problems: list[Problem] = []
    found = segments(run)
    done: dict[str, list[Part]] = {name: [] for name in TABLES}
    for name, source in sources.items():
        for part in parts(run, name):
            checked = _check_part(run, part.path, source.table, problems, verify=verify)
            if checked is None:
                continue
            if isinstance(checked, pa.Table):
                source.journal.append(checked)
            else:
                source.parts.append((part.path, checked))
            done[name].append(part)
    newest: dict[tuple[str, int], int] = {}
    together: dict[tuple[int, int], dict[str, Path]] = {}
    for rank, name, index, path in found:
        newest[name, rank] = max(index, newest.get((name, rank), -1))
        together.setdefault((rank, index), {})[name] = path
    for (rank, index), streams in together.items():
        in_parts = {table for table in done if any(part.holds(rank, index) for part in done[table])}
        open_ = {name for name in streams if not ended and index == newest[name, rank]}
        written = bytes_written(run, rank, index)
        journal = _Journal(run, set(TABLES) - in_parts, open_, written, newest_schema, problems)
        for table, rows in journal.rows_of(streams):
            if rows.num_rows:
                sources[table].journal.append(_in_declared_shape(rows, TABLES[table]))
        for name, missing in missing_at_end(run, rank, index, streams).items():
            problems.append(Problem(str(streams[name]), f"it is damaged: its last {missing} bytes are missing"))
    _add_unwritten_rows(run, sources, done)
    return sources, problems


def _add_unwritten_rows(run: Path, sources: dict[str, Source], done: dict[str, list[Part]]) -> None:
    """Rows of `unwatched_steps` that a process had made when it was killed, or has just made, and the journal has not."""
    name = "unwatched_steps"
    for path in sorted(unwatched_rows_path(run, 0).parent.glob("*.rows")):
        rank, (made, _) = rank_of(path.stem), read_unwatched_rows(path)
        if rank is None or not made:
            continue
        last = max((_last_step(sources[table], done[table], rank) for table in ("steps", name)), default=-1)
        rows = [{"rank": rank, **msgspec.structs.asdict(row)} for row in rows_after(made, last)]
        if rows:
            table = TABLES[name]
            sources[name].journal.append(_in_declared_shape(pa.Table.from_pylist(rows, table.schema), table))


def _last_step(source: Source, done: list[Part], rank: int) -> int:
    """The last step of a rank that a table holds; -1 where it has none."""
    held = [rows.select(["rank", "step"]) for rows in source.journal]
    newest = max((part for part in done if part.rank == rank), key=lambda part: part.last, default=None)
    if newest is not None:
        held.append(read_part(newest.path, source.table, frozenset({"rank", "step"})).select(["rank", "step"]))
    last = [pl.DataFrame(pl.from_arrow(rows)).filter(pl.col("rank") == rank)["step"].max() for rows in held]
    return max((step for step in last if isinstance(step, int)), default=-1)


@dataclass(frozen=True, slots=True)
class _Journal:
    """Segments of one rank and number. ``wanted``: tables whose rows are in no part. ``open_``: streams whose end may be torn;
    ``written``: bytes of each that its writer says were written."""

    run: Path
    wanted: set[str]
    open_: set[str]
    written: dict[str, int]
    newest_schema: int
    problems: list[Problem]

    def rows_of(self, streams: dict[str, Path]) -> Iterator[tuple[str, pa.Table]]:
        """(table, rows) of each stream; records of whole steps come first, because they vouch for those of tensor_stats."""
        marks: Sequence[Mark] = ()
        for name in sorted(streams, key=lambda n: n != STEP_VALUES):
            wanted = [table for table in TABLES if table in self.wanted and name in {table, STEP_VALUES}]
            if not wanted and not (name == STEP_VALUES and "tensor_stats" in streams):
                continue
            path = streams[name]
            held = self._read(path, name, marks)
            if held is None:
                continue
            if name == STEP_VALUES:
                marks = held.marks
                yield from _apart(path, held.table, wanted, self.problems).items()
            else:
                yield name, held.table

    def _read(self, path: Path, name: str, marks: Sequence[Mark]) -> Records | None:
        """Every sound record of a journal segment; a torn tail ends it."""
        tail_is_normal = name in self.open_
        try:
            raw = read_file(path, self.run, MOST_SEGMENT)
        except FileNotFoundError:
            if path.is_symlink():
                self.problems.append(Problem(str(path), "it is a link to nothing"))
                return None
            raise
        except OSError as e:
            self.problems.append(Problem(str(path), f"cannot be read ({e.strerror})"))
            return None
        if not raw:
            return None
        declared = STEP_VALUES_SCHEMA if name == STEP_VALUES else TABLES[name].schema
        try:
            held = read_records(raw, declared, marks)
        except (OSError, ValueError, pa.ArrowException) as e:
            if not tail_is_normal:
                self.problems.append(Problem(str(path), f"journal torn after 0 complete appends: {first_line(e)}"))
            return None
        wrong = _wrong(path, held.table.schema, declared, self.newest_schema)
        if wrong:
            self.problems.append(Problem(str(path), wrong))
            return None
        if held.lost:
            self.problems.append(
                Problem(str(path), f"{held.lost} damaged stretch(es) of its journal are left out, the rest is read")
            )
        tail_is_normal = tail_is_normal and self.written.get(name, 0) <= len(raw) - held.torn_bytes
        if held.torn_bytes and held.torn and not tail_is_normal:
            self.problems.append(
                Problem(str(path), f"journal torn after {held.complete} complete appends: {held.torn}")
            )
        return held


def _check_part(
    run: Path, path: Path, table: Table, problems: list[Problem], *, verify: bool
) -> frozenset[str] | pa.Table | None:
    """Declared columns that a part has; of a damaged one the rows of its whole row groups; None (and a problem) where it cannot
    serve as one."""
    try:
        check_file(path, run)
        seal = read_seal(path, rows=verify)
        if seal.state == "footer":
            problems.append(
                Problem(str(path), "it is damaged: its footer is not what was written; none of its rows are read")
            )
            return None
        with pq.ParquetFile(path) as file:
            schema, groups = file.schema_arrow, file.num_row_groups
            wrong = _wrong(path, schema, table.schema, SCHEMA_VERSION + 1)  # its seal tells damage
            if wrong:
                problems.append(Problem(str(path), wrong))
                return None
            metadata: dict[bytes, bytes] = schema.metadata or {}
            lost = metadata.get(b"firstfault.damaged_records", b"")
            if lost.isdigit():
                problems.append(
                    Problem(str(path), f"{int(lost)} damaged stretch(es) of its journal are left out, the rest is read")
                )
            columns = frozenset(schema.names) & frozenset(table.column_names)
            if seal.state != "rows":
                return columns
            rows = file.metadata.num_rows
            kept = _whole_groups(file, seal.whole_groups, table, columns) if groups else None
    except FileNotFoundError:
        if path.is_symlink():
            problems.append(Problem(str(path), "it is a link to nothing"))
            return None
        raise
    except (OSError, ValueError, pa.ArrowException) as e:
        problems.append(Problem(str(path), _why(e)))
        return None
    left = 0 if kept is None else kept.num_rows
    problems.append(Problem(str(path), f"it is damaged: {rows - left} of its {rows} rows are left out", rows - left))
    return kept


def _whole_groups(file: pq.ParquetFile, whole: list[int], table: Table, columns: frozenset[str]) -> pa.Table | None:
    if not whole:
        return None
    names = [c for c in table.column_names if c in columns]
    return _in_declared_shape(file.read_row_groups(whole, columns=names, use_threads=False), table)


def _apart(path: Path, values: pa.Table, wanted: list[str], problems: list[Problem]) -> dict[str, pa.Table]:
    """Table → its rows among the values of whole steps."""
    tables, misfits = tables_of(values, wanted)
    if misfits:
        problems.append(Problem(str(path), f"{misfits} value(s) do not fit their columns; they are null"))
    return tables


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


def _wrong(path: Path, schema: pa.Schema, declared: pa.Schema, newest_schema: int) -> str | None:
    """Why a file cannot be read as what is declared; None if it can. ``newest_schema``: what run.json says of the run."""
    metadata: dict[bytes, bytes] = schema.metadata or {}
    raw = metadata.get(VERSION_KEY)
    if raw is None or not raw.isdigit():
        return "not written by firstfault: no schema version in its metadata"
    if int(raw) > SCHEMA_VERSION >= newest_schema:
        return "it is damaged: its schema version is not that of the run"
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


def _why(e: BaseException) -> str:
    """Why a part cannot serve: what was refused before it was opened, else what Parquet says of it."""
    if isinstance(e, OSError) and e.errno in {errno.EINVAL, errno.ELOOP} and (e.strerror or "").startswith("it is "):
        return str(e.strerror)
    return f"torn or not Parquet: {first_line(e)}"
