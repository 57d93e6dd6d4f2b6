"""From declared tables to DuckDB views: raw tables with a comment on every column, and the shared views of sql/."""

import re
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path

import duckdb
import pyarrow as pa

from ...schemas import RECORDS, TABLES, Column, Phase, Table
from .sharded_norms import joined_steps
from .sources import Source, read_part

SHARED = (
    "stats",
    "range_tests",
    "handovers",
    "looks_back",
    "unexplained_leaps",
    "known_exceptions",
    "script_ended",
    "acting_models",
    "step_series",
    "losses",
    "optimizer_series",
    "module_tree",
    "parameters",
    "halved_weights",
    "compiled_values",
    "step_detail",
    "optimizer_state_tensors",
    "optimizer_states",
    "param_steps",
    "loss_levels",
    "divergences",
    "bad_steps",
    "nonfinite",
    "nonfinite_origin",
    "operator_sites",
    "first_bad_operator",
    "lost_outside_graph",
    "target_syncs",
    "batch_fields",
    "data_changes",
    "collective_calls",
    "batches_alike",
    "replicas",
    "shards_by_hand",
    "replica_steps",
    "divergence_of_ranks",
    "whole_stats",
    "memory_growing",
    "lost_in_backward",
    "memory_gathered",
    "allocator_history",
    "device_memory",
    "step_time",
    "device_events",
    "profile_windows",
    "device_use",
    "profiled_steps",
    "device_gaps",
    "host_in_gaps",
    "kernel_times",
    "operator_times",
    "calls_missed",
    "memory_changes",
    "profiled_memory",
    "memory_left",
    "profiled_calls",
    "profiled_waits",
    "rank_lateness",
)
"""Views defined in analyzer/reading/sql, in the order in which people meet them; a test holds list and files together."""

_TYPES = {
    pa.int8(): "TINYINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
    pa.bool_(): "BOOLEAN",
    pa.string(): "VARCHAR",
    pa.list_(pa.int64()): "BIGINT[]",
    pa.list_(pa.float64()): "DOUBLE[]",
}


def quote(text: str) -> str:
    """A SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def sql_type(column: Column) -> str:
    """DuckDB type of a column as the view shows it: phases by name."""
    return "VARCHAR" if column.unit == "enum Phase" else _TYPES[column.type]


def install_types(con: duckdb.DuckDBPyConnection) -> None:
    """Macros that the raw views themselves need."""
    names = ", ".join(quote(p.name.lower()) for p in Phase)
    con.execute(f"CREATE MACRO phase_name(code) AS list_extract([{names}], code + 1)")
    con.execute(f"CREATE MACRO phase_order(name) AS list_position([{names}], name) - 1")


def view_statements(con: duckdb.DuckDBPyConnection, sources: Mapping[str, Source]) -> dict[str, str]:
    """Declared table → the statement that creates its view over its parts and its journals, or an empty one where nothing was
    recorded. What keeps only the latest row of a key is created at once, and has none."""
    parts = sources.get("norm_parts")
    sharded = parts is not None and bool(parts.parts or parts.journal)
    first = sorted(sources.items(), key=lambda item: item[0] != "norm_parts")  # the view of steps reads it
    return {name: text for name, source in first if (text := _view_of(con, name, source, sharded=sharded))}


def _view_of(con: duckdb.DuckDBPyConnection, name: str, source: Source, *, sharded: bool) -> str:
    """The statement that creates one view; nothing where its rows had to be sorted out first. ``sharded``: steps whose norms
    are joined over ranks."""
    table = source.table
    if table.latest and (source.parts or source.journal):
        _create_latest(con, name, source)
        return ""
    selects = [_select_parts(source, group) for group in _groups(source)]
    if source.journal:
        con.register(f"{name}__journal", pa.concat_tables(source.journal).combine_chunks())
        selects.append(f'SELECT {_columns(source, None)} FROM "{name}__journal"')  # noqa: S608 # declared names
    if not selects:
        empty = ", ".join(f'NULL::{sql_type(c)} AS "{c.name}"' for c in table.columns)
        selects.append(f"SELECT {empty} WHERE false")
    select = " UNION ALL ".join(selects)
    if name == "steps" and sharded:
        select = joined_steps(select)
    return f'CREATE {"TABLE" if table.latest else "VIEW"} "{name}" AS {select}'


def create_tables(con: duckdb.DuckDBPyConnection, tables: Iterable[Table]) -> None:
    """Declared tables without a row, to be filled later."""
    for table in tables:
        columns = ", ".join(f'"{c.name}" {sql_type(c)}' for c in table.columns)
        con.execute(f'CREATE TABLE "{table.name}" ({columns})')


def describe(con: duckdb.DuckDBPyConnection, table: Table) -> None:
    """Put the declaration's sentences on a created view as comments, for people who ask DuckDB what there is."""
    name, kind = table.name, "TABLE" if table.latest else "VIEW"
    con.execute(f'COMMENT ON {kind} "{name}" IS {quote(table.doc)}')
    for c in table.columns:
        unit = f" ({c.unit})" if c.unit and c.unit != "enum Phase" else ""
        con.execute(f'COMMENT ON COLUMN "{name}"."{c.name}" IS {quote(c.doc + unit)}')


def _create_latest(con: duckdb.DuckDBPyConnection, name: str, source: Source) -> None:
    """Small tables in which a later row replaces an earlier one of the same key."""
    table = source.table
    pieces = [read_part(path, table, columns) for path, columns in source.parts] + source.journal
    schema = pa.schema([pa.field(c.name, c.type) for c in table.columns])
    rows = pa.concat_tables([p.cast(schema) for p in pieces]) if pieces else schema.empty_table()
    with _registered(con, table, rows) as select:
        con.execute(f'CREATE TABLE "{name}" AS {select}')


def fill_tables(con: duckdb.DuckDBPyConnection, rows: Iterable[tuple[Table, pa.Table]]) -> None:
    """Insert recorded rows into tables that ``create_tables`` created."""
    with ExitStack() as stack:
        inserts: list[str] = []
        for table, given in rows:
            held = [c for c in table.column_names if given[c].null_count < given.num_rows]  # each column has its cost
            names = ", ".join(f'"{c}"' for c in held)
            select = stack.enter_context(_registered(con, table, given.select(held)))
            inserts.append(f'INSERT INTO "{table.name}" ({names}) {select}')
        con.execute(";".join(inserts))


@contextmanager
def _registered(con: duckdb.DuckDBPyConnection, table: Table, rows: pa.Table) -> Generator[str]:
    """The SELECT of these rows as their table shows them: of a table with ``latest``, the last row of each key."""
    name = f"{table.name}__all"
    shown = ", ".join(_shown(c) for c in table.columns if c.name in rows.column_names)
    con.register(name, (_latest_of(rows, table.key) if table.latest else rows).combine_chunks())
    yield f'SELECT {shown} FROM "{name}"'  # noqa: S608 # declared names
    con.unregister(name)


def _latest_of(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """The last row of each key, ordered by keys. To plan the same in SQL takes longer than these small tables hold."""
    numbered = rows.select(key).append_column("__ordinal", pa.array(range(rows.num_rows), pa.int64()))
    last = numbered.group_by(list(key), use_threads=False).aggregate([("__ordinal", "max")])
    return rows.take(last.sort_by([(column, "ascending") for column in key])["__ordinal_max"])


def _groups(source: Source) -> list[frozenset[str]]:
    """Distinct column sets of the parts: parts of one set are read by one scan."""
    return sorted({columns for _, columns in source.parts}, key=sorted)


def _select_parts(source: Source, group: frozenset[str]) -> str:
    paths = ", ".join(quote(literal_path(p)) for p, columns in source.parts if columns == group)
    columns = _columns(source, group)
    return f"SELECT {columns} FROM read_parquet([{paths}], hive_partitioning=false)"  # noqa: S608 # quoted literals


def _columns(source: Source, present: frozenset[str] | None) -> str:
    out: list[str] = []
    for c in source.table.columns:
        if present is not None and c.name not in present:
            out.append(f'NULL::{sql_type(c)} AS "{c.name}"')
        else:
            out.append(_shown(c))
    return ", ".join(out)


def _shown(column: Column) -> str:
    """A column as the view shows it: phases by name."""
    return f'phase_name("{column.name}") AS "{column.name}"' if column.unit == "enum Phase" else f'"{column.name}"'


def literal_path(path: Path) -> str:
    """A path in which DuckDB's globbing finds nothing to expand: run folders may be called `run[1]*`."""
    return re.sub(r"([*?\[])", r"[\1]", str(path.absolute()))


def create_shared_views(con: duckdb.DuckDBPyConnection, *, described: bool, filled: bool = False) -> None:
    """Run every file of sql/ in the order of their names; without the comments it takes a third of the time. ``filled``
    makes tables of them at once: each is then computed from tables and not from views upon views."""
    text = _shared_sql()
    text = text if described else _COMMENT.sub("", text)
    con.execute(_VIEW.sub("CREATE TABLE", text) if filled else text)


def create_macros(con: duckdb.DuckDBPyConnection) -> None:
    """The macros of sql/ without its views."""
    con.execute("".join(statement for statement in _statements() if _VIEW_NAME.match(statement) is None))


def _shared_sql() -> str:
    """Text of all analyzer/reading/sql/*.sql in the order of their names."""
    folder = files("firstfault.analyzer") / "reading" / "sql"
    found = sorted((f for f in folder.iterdir() if f.name.endswith(".sql")), key=lambda f: f.name)
    return "\n".join(f.read_text(encoding="utf-8") for f in found)


@lru_cache(maxsize=1024)
def words_of(sql: str) -> frozenset[str]:
    """Every word of an SQL text in small letters: the names of what it reads are among them."""
    return frozenset(_WORD.findall(sql.lower()))


def asks_for_shared(query: str) -> bool:
    """Whether a query may read a shared view, use a macro, or ask what there is."""
    return bool(words_of(query) & _shared_names()) or asks_what_there_is(query)


@lru_cache(maxsize=1024)
def asks_what_there_is(query: str) -> bool:
    """Whether a query may list tables or views."""
    lists = any(word.startswith(_CATALOGUE) for word in words_of(query))
    return lists or _LISTING.search(_REMARK.sub(" ", query.lower())) is not None


@cache
def _shared_names() -> frozenset[str]:
    """Views and macros that sql/ creates."""
    return frozenset(name.lower() for name in _NAME.findall(_shared_sql()))


@cache
def shared_selects() -> Mapping[str, str]:
    """Shared view → its SELECT, each after the ones that it reads."""
    views = ((view, statement) for statement in _statements() if (view := _VIEW_NAME.match(statement)))
    return {view[1]: statement[view.end() :].rstrip().removesuffix(";") for view, statement in views}


@cache
def shared_words() -> Mapping[str, frozenset[str]]:
    """Shared view → the words of its SELECT, in the same order."""
    return {name: words_of(select) for name, select in shared_selects().items()}


@cache
def shared_wants() -> Mapping[str, tuple[tuple[str, str], ...]]:
    """Shared view → what stands in it after "empty without": tables, each with a condition or none. Without a row in one of them
    that meets its condition the view has no row."""
    found = ((name, _WANTED.match(select)) for name, select in shared_selects().items())
    return {name: tuple(_wanted(each) for each in told[1].split(" | ")) for name, told in found if told}


def _wanted(told: str) -> tuple[str, str]:
    table, _, condition = told.partition(": ")
    return table, condition


@cache
def empty_tables() -> Mapping[str, str]:
    """Shared view that ``shared_wants`` knows → the statement that creates it without a row: to plan its SELECT takes longer."""
    text = (files("firstfault.analyzer") / "reading" / "empty_views.sql").read_text(encoding="utf-8")
    return {_TABLE_NAME.findall(line)[0]: line for line in text.splitlines() if line.startswith("CREATE")}


def reading(words: Iterable[str]) -> set[str]:
    """The shared views that are among these words, and those that they read, views upon views."""
    views = tuple(shared_words())
    read = set(words) & set(views)
    for at in reversed(range(len(views))):  # each reads only what stands before it
        if views[at] in read:
            read |= shared_words()[views[at]] & set(views[:at])
    return read


@cache
def _statements() -> list[str]:
    """Statements of sql/ without the comments on views and columns."""
    return _STATEMENT.split(_COMMENT.sub("", _shared_sql()))


_VIEW = re.compile(r"^CREATE VIEW\b", re.MULTILINE)
_NAME = re.compile(r"^CREATE (?:VIEW|MACRO) (\w+)", re.MULTILINE)
_CATALOGUE = ("duckdb_", "information_schema", "pg_catalog", "sqlite_")
"""How names begin that tell what there is, wherever they stand."""

_LISTING = re.compile(r"(?:^|[;(])\s*(?:show|desc|describe|summarize|pragma|export)\b")
"""Statements that tell it. In the midst of another the same words order its rows, or are somebody's."""

_REMARK = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)

_VIEW_NAME = re.compile(r"CREATE VIEW (\w+) AS\b")
_TABLE_NAME = re.compile(r"CREATE TABLE (\w+)")
_WANTED = re.compile(r"\s*-- empty without (.+)")
_STATEMENT = re.compile(r"^(?=CREATE\b)", re.MULTILINE)
_WORD = re.compile(r"\w+")
_COMMENT = re.compile(r"^COMMENT ON (?:[^';]|'(?:[^']|'')*')*;", re.MULTILINE)


@contextmanager
def empty_database() -> Generator[duckdb.DuckDBPyConnection]:
    """All tables and views without a row: what their documentation is read from."""
    con = duckdb.connect(":memory:")
    try:
        install_types(con)
        declared = {**TABLES, **RECORDS}
        con.execute(";".join(view_statements(con, {name: Source(table) for name, table in declared.items()}).values()))
        for table in declared.values():
            describe(con, table)
        create_shared_views(con, described=True)
        yield con
    finally:
        con.close()
