"""Tables and shared views of an opened run: created, taken out of their files, or computed, each when a query first names it."""

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import duckdb

from ..errors import AnalyzerError, first_line
from .sources import Source
from .views import (
    asks_for_shared,
    asks_what_there_is,
    create_macros,
    create_shared_views,
    empty_tables,
    reading,
    shared_selects,
    shared_wants,
    shared_words,
    words_of,
)

LONG = frozenset({"stats", "whole_stats", "device_events", "memory_changes", "profiled_calls"})
"""Shared views with about as many rows as the longest tables. They stay views where a run is not small."""

SMALL_BYTES = 4 * 2**20
"""Size of all parts up to which every table and view is taken into memory: ten times as much, at most."""

TAKEN_BYTES = 400 * 2**20
"""What tables of a larger run may take of the memory, eight bytes a value: opening and planning their files again for each of
some 150 rules costs more than all there is to compute. With more, the longest ones are read where they lie."""

TAKEN_BYTES_OF_LARGE = 8 * 2**30
"""The same where they go into the scratch file, which holds them in a fourth of it."""

MANY_ROWS = 1_000_000
"""Rows of a table above which to look at all of them costs more than one look for each question."""


class OnDemand:
    """What is in the database of one run so far. ``on_disk``: the database is a scratch file. Raises AnalyzerError where a part
    of the run cannot be read."""

    def __init__(
        self, con: duckdb.DuckDBPyConnection, path: Path, sources: Mapping[str, Source], *, on_disk: bool
    ) -> None:
        self._con = con
        self._path = path
        self._sources = sources
        self._on_disk = on_disk
        self._prepared = False
        self._undeclared = dict[str, str]()
        """Table → the statement that creates its view, where nobody has asked for it yet: each costs some planning."""
        self._macros = False
        """Whether the macros are there that shared views use."""
        self._unviewed: Mapping[str, str] = shared_selects()
        """Shared view → its SELECT, where there is nothing of that name yet: a view is planned when it is created."""
        self._untaken = set[str]()
        """Tables that are to be taken out of their files when they are first asked for."""
        self._uncomputed: dict[str, frozenset[str]] = {}
        """Shared view → the words of its SELECT, where it is to become a table when it is first asked for."""
        self._selects: Mapping[str, str] = {}
        """Shared view → its SELECT, where there is no view of that name before it is computed."""
        self._met: dict[tuple[str, str], bool] = {}
        """Table and condition → whether a row meets it."""

    def declare(self, statements: Mapping[str, str]) -> None:
        """Have views of tables created by these statements, each when it is first asked for."""
        self._undeclared.update(statements)

    def describe(self) -> None:
        """Create all shared views, with a comment on each and on its columns."""
        self._declare(self._undeclared)
        create_shared_views(self._con, described=True)
        self._unviewed, self._macros = {}, True

    def create(self, query: str | None = None) -> None:
        """Create the views that a query may want, or all of them: of shared views a run that is prepared has tables instead."""
        if query is not None and asks_what_there_is(query):
            query = None
        self._declare(self._undeclared if query is None else words_of(query))
        if not self._unviewed or (query is not None and not asks_for_shared(query)):
            return
        wanted = set(self._unviewed) if query is None else reading(words_of(query))
        new = {name: select for name, select in self._unviewed.items() if name in wanted}
        self._unviewed = {name: select for name, select in self._unviewed.items() if name not in wanted}
        try:
            for name in new:
                self._declare(shared_words()[name])
            self._create_macros()
            # a line of its own: a SELECT may end with a comment
            self._con.execute(";\n".join(f'CREATE VIEW "{name}" AS {select}' for name, select in new.items()))
        except duckdb.Error as e:
            raise AnalyzerError(f"{self._path}: cannot be opened ({first_line(e)}); please report this run") from e

    def prepare(self) -> None:
        """Have tables taken into the database and shared views computed from now on. Idempotent."""
        if self._prepared:
            return
        small = sum(source.size_bytes for source in self._sources.values()) <= SMALL_BYTES
        self._untaken = self._to_take(small=small)
        if small and self._unviewed:  # a view that nobody asks for costs its planning
            for name in list(self._untaken):
                self._take(name)
            self._create_macros()
            self._selects, self._unviewed = self._unviewed, {}
        else:
            self.create()
        self._uncomputed = dict(shared_words())
        self._prepared = True

    def compute(self, query: str) -> None:
        """Put tables in the places of what a query reads, and of what the shared views in it read."""
        wanted = set(words_of(query))
        if not self._uncomputed and not self._untaken:
            self._declare(wanted)
            return
        if self._selects and asks_what_there_is(query):
            wanted.update(self._uncomputed)
        for name in reversed(self._uncomputed):  # each reads only what stands before it
            if name in wanted:
                wanted |= self._uncomputed[name]
        for name in sorted(self._untaken & wanted):
            self._take(name)
        self._declare(wanted)
        computed = [n for n in self._uncomputed if n in wanted]
        self._look_for_rows(n for n in computed if n in self._selects)
        for name in computed:
            del self._uncomputed[name]
            if name not in LONG or name in self._selects:
                with self._reading():
                    self._materialise(name)

    def is_short(self, table: str) -> bool:
        """Whether to look at all rows of a table costs little."""
        self.create(table)
        if self._selects:
            self.compute(table)
            return True
        if table in self._uncomputed:
            return False
        self.compute(table)
        return self._con.execute(f'SELECT count(*) FROM "{table}"').fetchall()[0][0] <= MANY_ROWS  # noqa: S608 # a rule's

    def _declare(self, names: Iterable[str]) -> None:
        """Create the views of these tables that are not there yet."""
        wanted = self._undeclared.keys() & names
        if not wanted:
            return
        if "steps" in wanted and "norm_parts" in self._undeclared:
            wanted.add("norm_parts")  # the view of steps may read it, and stands after it
        statements = [self._undeclared.pop(name) for name in list(self._undeclared) if name in wanted]
        try:
            self._con.execute(";".join(statements))  # at once: a statement of its own takes three times as long
        except duckdb.Error as e:
            raise AnalyzerError(f"{self._path}: cannot be opened ({first_line(e)}); please report this run") from e

    def _create_macros(self) -> None:
        if not self._macros:
            create_macros(self._con)
            self._macros = True

    def _to_take(self, *, small: bool) -> set[str]:
        """Tables that go into memory, or into the scratch file: all of a small run, else the shortest ones."""
        found = {name for name, s in self._sources.items() if not s.table.latest and (s.parts or s.journal)}
        if small:
            return found
        sizes: dict[str, int] = {}
        for name in found:
            with suppress(duckdb.Error):  # its footer cannot be read: whoever asks for it is told
                self._declare([name])
                rows = self._con.execute(f'SELECT count(*) FROM "{name}"').fetchall()[0][0]  # noqa: S608 # declared names
                sizes[name] = 8 * rows * len(self._sources[name].table.columns)
        left, taken = TAKEN_BYTES_OF_LARGE if self._on_disk else TAKEN_BYTES, set[str]()
        for name in sorted(sizes, key=lambda n: (sizes[n], n)):
            left -= sizes[name]
            if left >= 0:
                taken.add(name)
        return taken

    def _take(self, name: str) -> None:
        self._untaken.remove(name)
        with suppress(duckdb.Error):  # stays a view: a part that is torn inside may be nobody's concern
            self._materialise(name)
            return
        self._declare([name])

    def _materialise(self, name: str) -> None:
        """A table with the rows of a view takes the view's place."""
        if name in self._undeclared:
            if name == "steps":
                self._declare(["norm_parts"])
            self._con.execute(self._undeclared[name].replace("CREATE VIEW", "CREATE TABLE", 1))
            del self._undeclared[name]
            return
        if name in self._selects:
            empty = self._is_empty(name)
            self._con.execute(empty_tables()[name] if empty else f'CREATE TABLE "{name}" AS {self._selects[name]}')
            return
        self._con.execute(f'CREATE TABLE "{name}__rows" AS SELECT * FROM "{name}"')  # noqa: S608 # own names
        self._con.execute(f'DROP VIEW "{name}"')
        self._con.execute(f'ALTER TABLE "{name}__rows" RENAME TO "{name}"')

    def _look_for_rows(self, views: Iterable[str]) -> None:
        """Find out, by one statement, what these views want of tables: one for each takes five times as long."""
        asked = dict.fromkeys(want for view in views for want in shared_wants().get(view, ()) if self._can_look(want))
        looks = [
            f'(SELECT {at} FROM "{table}" WHERE {condition or "true"} LIMIT 1)'  # noqa: S608 # our own words
            for at, (table, condition) in enumerate(asked)
        ]
        with self._reading():
            met = {at for (at,) in self._con.execute(" UNION ALL ".join(looks)).fetchall()} if looks else ()
        self._met.update((want, at in met) for at, want in enumerate(asked))

    def _can_look(self, want: tuple[str, str]) -> bool:
        """Whether the question is new, and about a table: a shared view may have to be computed before."""
        return want not in self._met and want[0] not in shared_words() and self._may_have_rows(want[0])

    def _may_have_rows(self, table: str) -> bool:
        source = self._sources.get(table)
        return source is None or bool(source.parts or source.journal)

    def _is_empty(self, view: str) -> bool:
        """Whether nothing is there without which a shared view has no row."""
        wanted = shared_wants().get(view)
        return wanted is not None and not any(self._has(table, condition) for table, condition in wanted)

    def _has(self, table: str, condition: str) -> bool:
        asked = (table, condition)
        if not self._may_have_rows(table):
            return False
        if asked not in self._met:
            query = f'SELECT EXISTS (FROM "{table}" WHERE {condition or "true"})'  # our own words
            self._met[asked] = self._con.execute(query).fetchall()[0][0]
        return self._met[asked]

    @contextmanager
    def _reading(self) -> Generator[None]:
        try:
            yield
        except duckdb.Error as e:
            raise AnalyzerError(f"{self._path}: a part cannot be read to its end ({first_line(e)})") from e
