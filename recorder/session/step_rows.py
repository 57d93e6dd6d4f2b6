"""Rows of the current step, and how they reach the journal: at once, or when the numbers that are still on a device have come."""

from collections import deque
from typing import Any

import pyarrow as pa

from ...schemas import TABLES
from ...schemas.files.step_values import STEP_VALUES, Row
from ..storage.journal import JournalWriter
from ..tensors.device import Page, all_devices, now, on
from ..tensors.moments import Moments
from .registry import Catalogue
from .row_checks import unknown_columns

_STATS_SCHEMA = TABLES["tensor_stats"].schema
_STATS_COLUMNS = _STATS_SCHEMA.names[2:]

WRITE_ORDER = tuple(name for name in TABLES if name != "system_samples")
"""Tables of a step. All but long tensor_stats reach the journal as one value, and last: where it is readable, all of the step
is."""

_FEW = 32
"""Rows of tensor_stats that are still no batch of their own."""

_MOST_WAITING = 4
"""Steps whose numbers may be on their way from a device; then the oldest is waited for."""


class _Bundle:
    """Rows of one write, and the pages that hold those of their numbers that are still on a device."""

    __slots__ = ("late_stats", "pages", "rows", "stats", "step")

    def __init__(self, step: int, pages: list[Page]) -> None:
        self.step = step
        self.pages = pages
        self.stats: list[tuple[Any, ...]] = []
        self.late_stats: list[tuple[int, Any]] = []
        self.rows: dict[str, list[Row]] = {}

    def ready(self) -> bool:
        """Whether everything has arrived."""
        return all(page.ready() for page in self.pages)


class StepRows:
    """Collects rows without their step; they get it when they are written, because only what ends an iteration tells which
    iteration it was."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self.stats: list[tuple[Any, ...]] = []
        self.late_stats: list[tuple[int, Any]] = []
        """Rows of ``stats`` whose moments have not arrived."""
        self.of: dict[str, list[Row]] = {name: [] for name in WRITE_ORDER}
        """Table → rows, of every other table."""
        self._waiting: deque[_Bundle] = deque()
        self.journal: JournalWriter | None = None
        self.journal_bytes = 0
        """Of the last step that was written."""
        self._misfits: list[str] = []

    def move_stat(self, index: int, phase: int) -> None:
        """A row still in the buffer turns out to belong to another phase."""
        if index < len(self.stats):
            row = self.stats[index]
            self.stats[index] = (*row[:2], phase, *row[3:])

    def put_moments(self, index: int, moments: Moments) -> None:
        """Other moments for a row still in the buffer."""
        if index < len(self.stats):
            row = self.stats[index]
            if type(moments) is Moments:
                self.stats[index] = (*row[:4], *moments, *row[12:])
            else:  # still on its way from a device
                self.late_stats = [late for late in self.late_stats if late[0] != index] + [(index, moments)]

    def write(self, step: int, tables: tuple[str, ...], *, wait: bool) -> list[OSError]:
        """Append the collected rows of these tables to the journal, those of a step whose numbers are still on a device
        later, unless ``wait``. Returns what the disk said where it did not take a step; its rows are lost."""
        if self.journal is None:
            return []
        self.of["modules"] += self._catalogue.take_module_rows()
        self.of["tensors"] += self._catalogue.take_tensor_rows()
        whole = "tensor_stats" in tables
        bundle = _Bundle(step, [page for device in all_devices() for page in device.seal()] if whole else [])
        for name in tables:
            if name == "tensor_stats":
                bundle.stats, self.stats = self.stats, []
                bundle.late_stats, self.late_stats = self.late_stats, []
            elif rows := self.of[name]:
                bundle.rows[name] = rows
                self.of[name] = []
        self._waiting.append(bundle)
        refused: list[OSError] = []
        while self._waiting and (wait or self._waiting[0].ready() or len(self._waiting) > _MOST_WAITING):
            try:
                self._append(self._waiting.popleft(), self.journal)
            except OSError as e:
                refused.append(e)
        return refused

    def write_at_once(self, rows: list[Row]) -> list[OSError]:
        """Append complete rows of `unwatched_steps`; returns what the disk said where it did not take it."""
        if self.journal is not None:
            try:
                self.journal_bytes = self.journal.append({STEP_VALUES: {"unwatched_steps": rows}})
            except OSError as e:
                return [e]
        return []

    def _append(self, bundle: _Bundle, journal: JournalWriter) -> None:
        """Write rows whose values have all arrived, or wait for them."""
        for index, moments in bundle.late_stats:
            row = bundle.stats[index]
            bundle.stats[index] = (*row[:4], *now(moments), *row[12:])
        batches: dict[str, pa.RecordBatch | dict[str, list[Row]]] = {}
        few = bundle.rows
        if len(bundle.stats) > _FEW:
            batches["tensor_stats"] = self._stats_batch(bundle.step, bundle.stats)
        elif bundle.stats:
            few["tensor_stats"] = [dict(zip(_STATS_COLUMNS, row, strict=True)) for row in bundle.stats]
        if few:
            self._complete(bundle.step, few, late=bool(bundle.pages))
            batches[STEP_VALUES] = few
        for page in bundle.pages:
            on(page.device).reuse(page)
        self.journal_bytes = journal.append(batches)

    def _stats_batch(self, step: int, rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
        count = len(rows)
        columns = [[self._catalogue.rank] * count, [step] * count, *zip(*rows, strict=True)]
        return pa.RecordBatch.from_arrays(list(map(pa.array, columns, _STATS_SCHEMA.types)), schema=_STATS_SCHEMA)

    def take_misfits(self) -> list[str]:
        """What was added to rows of the step before although their table has no such column."""
        misfits, self._misfits = self._misfits, []
        return misfits

    def _complete(self, step: int, tables: dict[str, list[Row]], *, late: bool) -> None:
        """Fill in what every row has, and numbers that have come from a device since."""
        rank = self._catalogue.rank
        for table, rows in tables.items():
            for row in rows:
                if wrong := unknown_columns(table, row):
                    self._misfits.append(f"{table} cannot take {', '.join(wrong)}")
                    for column in wrong:
                        del row[column]
                row.setdefault("rank", rank)
                row.setdefault("step", step)
                if late:
                    for column, value in row.items():
                        row[column] = now(value)
