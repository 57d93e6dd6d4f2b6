"""One opened database for many cases: its tables are filled for a case and empty again afterwards.

Opening a database and computing the shared views costs more than most rules. Here the views are computed once over empty
tables; a case recomputes only those that its rule reads and that read a table with rows.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self, cast

import duckdb

from ...schemas import RECORDS, TABLES, ExitRecord, RunManifest
from ...schemas.files.parts import Rows, table_of
from ..reading.records import record_rows
from ..reading.trace import Trace
from ..reading.views import create_shared_views, create_tables, fill_tables, install_types, shared_selects, words_of
from ..verdict import Status

_DECLARED = {**TABLES, **RECORDS}


class CaseDatabase:
    """Every table and every shared view in memory, without a row between two cases. A context manager."""

    def __init__(self) -> None:
        self._con = duckdb.connect(":memory:", config={"threads": 1})
        self._con.execute("SET enable_progress_bar = false")
        install_types(self._con)
        create_tables(self._con, _DECLARED.values())
        create_shared_views(self._con, described=False, filled=True)
        self._selects = shared_selects()
        self._reads = {view: words_of(select) for view, select in self._selects.items()}

    @contextmanager
    def filled(
        self,
        tables: Mapping[str, Rows],
        manifest: RunManifest,
        exit_: ExitRecord | None,
        *,
        read_by: str | None = None,
    ) -> Generator[Trace]:
        """A trace of these rows; of the shared views only what ``read_by`` reads is computed, everything without it."""
        trace = _CaseTrace(self._con, manifest, exit_)
        records = record_rows(manifest, exit_, trace.status)
        self._con.begin()
        try:
            given = [(TABLES[name], table_of(TABLES[name], rows)) for name, rows in tables.items()]
            given += [(RECORDS[name], rows) for name, rows in records.items()]
            fill_tables(self._con, [(table, rows) for table, rows in given if rows.num_rows])
            self._compute({table.name for table, rows in given if rows.num_rows}, read_by)
            yield trace
        finally:
            self._con.rollback()

    def _compute(self, filled: set[str], read_by: str | None) -> None:
        """Replace the rows of the shared views that read one of these tables, directly or through another view."""
        wanted = self._wanted(read_by)
        changed = set(filled)
        for view, select in self._selects.items():
            if changed & self._reads[view]:
                changed.add(view)
                if view in wanted:
                    self._con.execute(f'CREATE OR REPLACE TABLE "{view}" AS {select}')

    def _wanted(self, read_by: str | None) -> set[str]:
        """Shared views that this SQL reads, directly or through another view; all of them without it."""
        if read_by is None:
            return set(self._selects)
        wanted = set(words_of(read_by))
        for view in reversed(self._selects):  # each reads only what stands before it
            if view in wanted:
                wanted |= self._reads[view]
        return wanted & set(self._selects)

    def close(self) -> None:
        """Free what DuckDB holds."""
        self._con.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class _CaseTrace(Trace):
    """A trace over tables that are filled and views that are computed. It has no folder, so a run without an exit record is
    lost."""

    def __init__(self, con: duckdb.DuckDBPyConnection, manifest: RunManifest, exit_: ExitRecord | None) -> None:
        self.path = Path("run")
        self.manifest, self.exit = manifest, exit_
        self.status = "host-lost" if exit_ is None else cast("Status", exit_.status)
        self.problems, self.rows_damaged = [], False
        self._con = con
        self._forget()
        self._prepared = self._viewed = True

    def close(self) -> None:
        """Leave the database open: it is the CaseDatabase's."""
