"""One opened database for many cases: its tables are filled for a case and empty again afterwards.

Opening a database and computing the shared views costs more than most rules. Here the views are computed once over empty
tables; a case recomputes only those that it asks for and that read a table with rows.
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Self, cast

import duckdb
import pyarrow as pa

from ...schemas import RECORDS, TABLES, ExitRecord, RunManifest, Table
from ...schemas.files.parts import Rows, table_of
from ..reading.on_demand import OnDemand
from ..reading.records import record_rows
from ..reading.trace import Trace, parsed
from ..reading.views import (
    create_shared_views,
    create_tables,
    fill_tables,
    install_types,
    reading,
    shared_selects,
    shared_words,
    words_of,
)
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

    def optimize(self, wanted: bool) -> None:
        """Whether DuckDB optimizes its plans. For so few rows this takes longer than what it saves."""
        self._con.execute(f"PRAGMA {'enable' if wanted else 'disable'}_optimizer")

    @contextmanager
    def filled(self, tables: Mapping[str, Rows], manifest: RunManifest, exit_: ExitRecord | None) -> Generator[Trace]:
        """A trace of these rows; a shared view is computed when it is first asked for."""
        given = [(TABLES[name], table_of(TABLES[name], rows)) for name, rows in tables.items()]
        trace = _CaseTrace(self._con, manifest, exit_)
        records = [(RECORDS[name], rows) for name, rows in record_rows(manifest, exit_, trace.status).items()]
        given, records = ([(table, rows) for table, rows in some if rows.num_rows] for some in (given, records))
        trace.computes(self._outdated({table.name for table, _ in (*given, *records)}), records)
        self._con.begin()
        try:
            fill_tables(self._con, given)
            yield trace
        finally:
            self._con.rollback()

    def _outdated(self, filled: set[str]) -> dict[str, str]:
        """Shared views that read one of these tables, directly or through another view, with their SELECTs."""
        changed, found = set(filled), dict[str, str]()
        for view, select in self._selects.items():
            if changed & shared_words()[view]:
                changed.add(view)
                found[view] = select
        return found

    def close(self) -> None:
        """Free what DuckDB holds."""
        self._con.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class _CaseViews(OnDemand):
    """Tables that are filled, and views that are computed: from ``selects`` those that have to be computed anew. ``records``
    are filled when they are first asked for: each run has some, and few rules look at them."""

    def __init__(
        self, con: duckdb.DuckDBPyConnection, selects: Mapping[str, str], records: Sequence[tuple[Table, pa.Table]]
    ) -> None:
        super().__init__(con, Path("run"), {}, on_disk=False)
        self._records = list(records)
        self._prepared, self._unviewed = True, {}
        self._selects = selects
        self._uncomputed = {view: shared_words()[view] for view in selects}

    def create(self, query: str | None = None) -> None:
        """Fill the records that a query may want."""
        wanted = [r for r in self._records if query is None or r[0].name in _all_words(query)]
        if wanted:
            self._records = [r for r in self._records if r not in wanted]
            fill_tables(self._con, wanted)
        super().create(query)

    def compute(self, query: str) -> None:
        """Fill and compute what a query reads."""
        self.create(query)
        super().compute(query)

    def _materialise(self, name: str) -> None:
        if self._is_empty(name):
            return  # it was computed over empty tables
        self._con.execute(parsed(f'CREATE OR REPLACE TABLE "{name}" AS {self._selects[name]}'))


@lru_cache(maxsize=1024)
def _all_words(query: str) -> frozenset[str]:
    """Words of a query, and of all shared views that it reads."""
    words = words_of(query)
    return words.union(*(shared_words()[view] for view in reading(words)))


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

    def computes(self, selects: Mapping[str, str], records: Sequence[tuple[Table, pa.Table]]) -> None:
        """Have these shared views computed anew and these records filled, each when it is first asked for."""
        self._views = _CaseViews(self._con, selects, records)

    def close(self) -> None:
        """Leave the database open: it is the CaseDatabase's."""
