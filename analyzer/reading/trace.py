"""Open what a run left on disk as DuckDB views: a trace. The only owner of DuckDB.

It opens parts and journal together, and needs no repair step and no write permission. Everything is in memory except the parts
themselves, which DuckDB reads in place.
"""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

import duckdb
import polars as pl

from ...schemas import RECORDS, TABLES, ExitRecord, RunManifest, SchemaError, read_manifest
from ...schemas.files.integrity import damages
from ...schemas.files.layout import RUN_JSON, parts, segments
from ...schemas.files.manifest import UNKNOWN_END, rescue_exit, rescue_manifest
from ..errors import AnalyzerError, NotARunError, QueryError, UnreadableRunError, first_line
from ..verdict import Status
from .liveness import goes_on, lost_position_rows
from .on_demand import MANY_ROWS, OnDemand
from .records import as_table, record_rows
from .scratch import Scratch
from .sources import NOT_VERIFIED, Problem, Source, find_sources
from .views import SHARED, describe, install_types, literal_path, quote, view_statements

LARGE_BYTES = 60 * 2**20
"""Size of all parts, some ten million rows, from which a scratch file stands in for memory."""

MEMORY_OF_LARGE = 1_200
"""MB that DuckDB may hold of a large run, where the machine has twice as much: with what is outside its count the process stays
below 2 GB. What does not fit is written to the scratch file."""

HARMLESS = {
    duckdb.StatementType.SELECT,
    duckdb.StatementType.EXPLAIN,
    duckdb.StatementType.CREATE,
    duckdb.StatementType.DROP,
    duckdb.StatementType.INSERT,
    duckdb.StatementType.UPDATE,
    duckdb.StatementType.DELETE,
}
"""Statements that touch nothing but tables in memory where the trace is locked."""


def statements_of(query: str) -> list[duckdb.Statement]:
    """The statements of a text. Raises QueryError with DuckDB's own words."""
    try:
        return duckdb.extract_statements(query)
    except duckdb.Error as e:
        raise QueryError(str(e)) from e


@lru_cache(maxsize=1024)
def parsed(query: str) -> duckdb.Statement | str:
    """The statement of a text, for any connection; several are left as they are. To parse a rule takes a fifth of what it costs
    on a small run, and a process that judges many runs asks the same each time."""
    statements = duckdb.extract_statements(query)
    return statements[0] if len(statements) == 1 else query


FEW_ROWS = 8
"""Rows of an imported log below which they speak for themselves alone."""


class Trace:
    """One run, readable. A context manager; ``sql`` returns polars frames. ``described`` puts a comment on every view
    and column, which people look for and rules do not need. ``unsafe`` lets SQL read and write files and reach the network.

    Raises NotARunError for a path that is no run folder, UnreadableRunError for a damaged run.json or exit.json or a
    file of a newer schema. Single torn or foreign files are listed in ``problems`` and left out.
    """

    def __init__(
        self, path: str | Path, *, threads: int | None = None, described: bool = False, unsafe: bool = False
    ) -> None:
        self.path = Path(path)
        _check_folder(self.path)
        self.manifest: RunManifest
        self.exit: ExitRecord | None
        self.manifest, self.exit, damaged = _records(self.path)
        self.status: Status = _status(self.path, self.manifest, self.exit)
        ended = self.exit is not None and self.exit.status in {"completed", "exception", UNKNOWN_END}
        self.problems: list[Problem]
        self._sources, self.problems = find_sources(self.path, ended=ended, newest_schema=self.manifest.schema_version)
        self.rows_damaged = any(p.what != NOT_VERIFIED for p in self.problems)
        """Whether rows of its tables are missing or may be."""
        self.problems = damaged + self.problems
        config: dict[str, Any] = {"autoinstall_known_extensions": False, "autoload_known_extensions": False}
        if threads is not None:
            config["threads"] = threads
        self._scratch: Scratch | None = None
        database = ":memory:"
        if sum(source.size_bytes for source in self._sources.values()) > LARGE_BYTES:
            # what is computed once for all rules is then kept in a file, compressed, and so is what a sort cannot hold
            self._scratch = Scratch()
            database = str(self._scratch.path / "scratch.duckdb")
            config["temp_directory"] = str(self._scratch.path)
        self._con = duckdb.connect(database, config=config)
        with suppress(duckdb.InvalidInputException):  # in a notebook without ipywidgets there is no bar to switch off
            self._con.execute("SET enable_progress_bar = false")  # the terminal belongs to the caller
        if self._scratch is not None:
            self._con.execute(f"SET memory_limit = '{min(MEMORY_OF_LARGE, _memory_mb(self._con) // 2)}MB'")
        self._views = OnDemand(self._con, self.path, self._sources, on_disk=self._scratch is not None)
        self._forget()
        try:
            self._open(described=described)
            if not unsafe:
                self._lock()
        except duckdb.Error as e:
            self.close()
            raise AnalyzerError(f"{self.path}: cannot be opened ({first_line(e)}); please report this run") from e

    def _forget(self) -> None:
        """Start with no question answered."""
        self._any: dict[str, bool] = {}
        self._filled: dict[str, frozenset[str]] = {}
        self._met: dict[tuple[str, str], bool] = {}
        self._kinds: frozenset[str] | None = None
        self._steps: int | None = None

    def _open(self, *, described: bool) -> None:
        install_types(self._con)
        self._views.declare(view_statements(self._con, self._sources))
        records = record_rows(self.manifest, self.exit, self.status)
        if self.exit is None:
            self._views.create("modules")
            rows = self._con.execute("SELECT rank, module_id, module FROM modules").fetchall()
            names = {(rank, module_id): module for rank, module_id, module in rows}
            records["last_positions"] = as_table("last_positions", lost_position_rows(self.path, names))
        sources = {name: Source(RECORDS[name], journal=[rows]) for name, rows in records.items()}
        self._views.declare(view_statements(self._con, sources))
        if described:
            self._views.describe()
            for table in (*TABLES.values(), *RECORDS.values()):
                describe(self._con, table)

    def _lock(self) -> None:
        """From here on SQL reads nothing but the run folder, and what it was told cannot be changed by SQL."""
        folders = [self.path.absolute(), self.path.resolve(), *([self._scratch.path] if self._scratch else [])]
        # DuckDB looks at the pattern before it looks at the file: run folders may be called `run[1]*`
        allowed = [text for folder in folders for text in (str(folder), literal_path(folder))]
        named = ", ".join(map(quote, dict.fromkeys(allowed)))
        self._con.execute(
            f"SET allowed_directories = [{named}]; SET enable_external_access = false;"
            " SET python_enable_replacements = false; SET lock_configuration = true"
        )

    @property
    def tables(self) -> list[str]:
        """Every name that can be queried: recorded tables, records, shared views."""
        return [*RECORDS, *TABLES, *SHARED]

    def has(self, table: str) -> bool:
        """Whether a recorded table has any row; asked once. Raises AnalyzerError for a name that is none."""
        if table not in self._any:
            if table not in self.tables:
                raise AnalyzerError(f"there is no table {table!r}; `firstfault sql RUN` lists them")
            self._views.create(table)
            if table in SHARED:
                self._views.compute(table)
            found = self._con.execute(f'SELECT 1 FROM "{table}" LIMIT 1').fetchall()  # noqa: S608 # name checked
            self._any[table] = bool(found)
        return self._any[table]

    def filled(self, table: str) -> frozenset[str]:
        """Columns of a recorded table that hold at least one value; asked once."""
        if table not in self._filled:
            self._views.compute(table)
            declared = {**TABLES, **RECORDS}[table].column_names
            rows = self._con.execute(f'SELECT count(*) FROM "{table}"').fetchall()[0][0]  # noqa: S608 # declared names
            if (
                rows > MANY_ROWS
            ):  # stops at each column's first value; of a short table it costs more than all rows at once
                tests = ", ".join(f'EXISTS (FROM "{table}" WHERE "{c}" IS NOT NULL)' for c in declared)
                row = self._con.execute(f"SELECT {tests}").fetchall()[0]
            else:
                tests = ", ".join(f'bool_or("{c}" IS NOT NULL)' for c in declared)
                row = self._con.execute(f'SELECT {tests} FROM "{table}"').fetchall()[0]  # noqa: S608 # declared names
            self._filled[table] = frozenset(c for c, any_ in zip(declared, row, strict=True) if any_)
        return self._filled[table]

    def look_for(self, sought: Iterable[tuple[str, str]]) -> None:
        """Find out, for many conditions at once, whether any row of their tables meets them: one look at each table, a
        thirtieth of what a rule's SELECT costs on a small run. Of conditions that DuckDB does not understand nothing is said
        here. Long tables, and views that nobody has computed, are let be.
        """
        conditions: dict[str, list[str]] = {}
        for table, condition in dict.fromkeys(sought):
            if (table, condition) not in self._met:
                conditions.setdefault(table, []).append(condition)
        for some in ([conditions], [{table: wanted} for table, wanted in conditions.items()]):
            for asked in some:
                with suppress(QueryError):  # then each table is asked alone
                    self._met.update(self._looked(asked))
                    if asked is conditions:
                        return

    def may_have(self, table: str, condition: str) -> bool:
        """Whether a row of the table may meet the condition; asked once. Raises QueryError with DuckDB's own words."""
        if (table, condition) not in self._met:
            self._met.update(self._looked({table: [condition]}))
        return self._met[table, condition]

    def _looked(self, conditions: Mapping[str, list[str]]) -> dict[tuple[str, str], bool]:
        """Conditions by table → whether a row may meet them, by one statement. Raises QueryError."""
        asked = [(table, condition) for table, wanted in conditions.items() for condition in wanted]
        looks: list[str] = []
        try:
            for table, wanted in conditions.items():
                if self._views.is_short(table):
                    tests = ", ".join(f"coalesce(bool_or({condition}), false)" for condition in wanted)
                    looks.append(f'(SELECT {tests} FROM "{table}")')  # noqa: S608 # a rule's own words
                else:
                    looks.append(f"(SELECT {', '.join(['true'] * len(wanted))})")
            found = self._con.execute(f"SELECT * FROM {', '.join(looks)}").fetchall()[0] if looks else ()  # noqa: S608
        except duckdb.Error as e:
            raise QueryError(str(e)) from e
        return dict(zip(asked, found, strict=True))

    def measured_kinds(self) -> frozenset[str]:
        """Kinds of tensors that have at least one row in tensor_stats; asked once."""
        if self._kinds is None:
            self._views.compute("tensors tensor_stats")
            rows = self._con.execute(
                "SELECT DISTINCT kind FROM tensors t WHERE EXISTS"
                " (FROM tensor_stats s WHERE s.rank = t.rank AND s.tensor_id = t.tensor_id)"
            ).fetchall()
            self._kinds = frozenset(kind for (kind,) in rows)
        return self._kinds

    def steps_recorded(self) -> int:
        """How many different steps have a row in steps; asked once."""
        if self._steps is None:
            self._views.compute("steps")
            self._steps = int(self._con.execute("SELECT count(DISTINCT step) FROM steps").fetchall()[0][0])
        return self._steps

    def steps_covered(self) -> int:
        """How many steps the recording speaks for. A log that was imported may hold one row in five hundred steps."""
        if not self.manifest.options.get("imported") or self.steps_recorded() < FEW_ROWS:
            return self.steps_recorded()
        rows = self._con.execute("SELECT max(step) - min(step) + 1 FROM steps").fetchall()
        return max(self.steps_recorded(), int(rows[0][0]))

    def sql(self, query: str, params: Mapping[str, Any] | None = None) -> pl.DataFrame:
        """Result of one statement as a polars frame; ``$name`` in the query is taken from ``params``.

        Raises QueryError with DuckDB's own words.
        """
        self._views.create(query)
        self._views.compute(query)
        try:
            return self._frame(query, params)
        except duckdb.CatalogException as e:
            if isinstance(parsed(query), str):  # of several statements some have been done
                raise QueryError(str(e)) from e
            self._views.create()  # DuckDB names what there is in place of a misspelt table
        except duckdb.Error as e:
            raise QueryError(str(e)) from e
        try:
            return self._frame(query, params)
        except duckdb.Error as e:
            raise QueryError(str(e)) from e

    def _frame(self, query: str, params: Mapping[str, Any] | None) -> pl.DataFrame:
        relation = cast("duckdb.DuckDBPyRelation | None", self._con.sql(query, params=dict(params) if params else None))
        return pl.DataFrame() if relation is None else relation.pl()

    def rows(self, query: str, params: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """The same as dictionaries of Python's own values: for a few rows, at two thirds of the cost of a frame.

        Raises QueryError with DuckDB's own words.
        """
        self._views.create(query)
        self._views.compute(query)
        try:
            done = self._con.execute(parsed(query), dict(params) if params else None)
            names = [column[0] for column in done.description or []]
            return [dict(zip(names, row, strict=True)) for row in done.fetchall()]
        except duckdb.Error as e:
            raise QueryError(str(e)) from e

    def prepare(self) -> None:
        """Take tables into the database, so that no question opens their files again; from here on a shared view is computed
        when it is first asked for, and once. Idempotent."""
        self._views.prepare()

    def close(self) -> None:
        """Free what DuckDB holds. Idempotent."""
        self._con.close()
        if self._scratch is not None:
            self._scratch.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _check_folder(path: Path) -> None:
    if not path.exists():
        raise NotARunError(f"{path}: no such folder; give a folder that `firstfault run` wrote")
    if not path.is_dir():
        raise NotARunError(f"{path}: not a folder; give a folder that `firstfault run` wrote")
    try:
        str(path).encode()
    except UnicodeEncodeError:
        shown = os.fsencode(path).decode("utf-8", "backslashreplace")
        raise NotARunError(
            f"{shown}: a path that is not UTF-8 cannot be read by DuckDB; rename or link the folder"
        ) from None
    if not (path / RUN_JSON).exists():
        raise NotARunError(f"{path}: not a run folder (no {RUN_JSON} in it); give a folder that `firstfault run` wrote")


def _records(path: Path) -> tuple[RunManifest, ExitRecord | None, list[Problem]]:
    """run.json, exit.json, and what is wrong with them and with other files that are no tables. Where there is no table either,
    a damaged run.json leaves nothing to read: UnreadableRunError."""
    try:
        manifest, why = rescue_manifest(path)
        ended, exit_path, why_exit = rescue_exit(path)
        if why is not None and not any(parts(path, table) for table in TABLES) and not segments(path):
            read_manifest(path)
            why = None
    except SchemaError as e:
        raise UnreadableRunError(str(e)) from e
    found = [(path / RUN_JSON, why), (exit_path, why_exit), *damages(path)]
    return manifest, ended, [Problem(str(file), what) for file, what in found if what is not None]


def _status(path: Path, manifest: RunManifest, exit_: ExitRecord | None) -> Status:
    """How the run stands."""
    if exit_ is not None:
        return cast("Status", exit_.status)
    return "running" if goes_on(path, manifest) else "host-lost"


def _memory_mb(con: duckdb.DuckDBPyConnection) -> int:
    """MB of this machine, or of the control group that we are in, from what DuckDB by default takes four fifths of."""
    (said,) = con.execute("SELECT current_setting('memory_limit')").fetchall()[0]
    number, unit = str(said).split()
    return int(float(number) * {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}.get(unit, 2**30) / 0.8e6)
