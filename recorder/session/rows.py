"""Rows of the current step, and how they reach the journal: at once, or when the numbers that are still on a device have come.

Rows are collected without their step and get it when they are written, because only what ends an iteration tells which
iteration it was.
"""

from collections import deque
from collections.abc import Sequence
from pathlib import Path
from time import time_ns
from typing import Any

import pyarrow as pa

from ...schemas import TABLES
from ...schemas.files.json_text import json_text
from ...schemas.files.secrets import Redactor
from ...schemas.files.step_values import STEP_VALUES, Row
from ..base.terminal import warn
from ..storage.journal import JournalWriter
from ..tensors.device import Late, Page, all_devices, stats_of_device, wait_for
from ..tensors.moment_table import MomentTable
from ..tensors.moments import Moments
from . import row_checks
from .position import Position
from .registry import Catalogue
from .row_checks import OF_MICROBATCHES, RowError, check_row, unknown_columns
from .stat_rows import StatRows

WRITE_ORDER = tuple(name for name in TABLES if name != "system_samples")
"""Tables of a step. All but long tensor_stats reach the journal as one value, and last: where it is readable, all of the step
is."""

_MOST_BUFFERED = 20_000
"""Rows of tensor_stats in the buffer that are written before their step ends."""

_MOST_WAITING = 24
"""Steps whose numbers may be on their way from a device; then the oldest is waited for. CUDA queues about a thousand launches and
makes the host wait by itself beyond: fewer steps than these, but for steps of a few dozen launches."""


class _Bundle:
    """Rows of one write, and the pages that hold those of their numbers that are still on a device."""

    __slots__ = ("pages", "rows", "stats", "step")

    def __init__(self, step: int, pages: list[Page]) -> None:
        self.step = step
        self.pages = pages
        self.stats = StatRows()
        self.rows: dict[str, list[Row]] = {}

    def ready(self) -> bool:
        """Whether everything has arrived."""
        return all(page.ready() for page in self.pages)


class Rows:
    """What was collected since the last write, and the journal that takes it. Everybody adds; the session writes."""

    def __init__(self, run: Path, position: Position, catalogue: Catalogue, secrets: Redactor) -> None:
        self._run = run
        self._position = position
        self._catalogue = catalogue
        self._excluded = catalogue.excluded
        self._secrets = secrets
        self._stats = StatRows()
        self._of: dict[str, list[Row]] = {name: [] for name in WRITE_ORDER}
        """Table → rows, of every other table."""
        self._waiting: deque[_Bundle] = deque()
        self.journal: JournalWriter | None = None
        """None until recording begins, and in a process that was forked from a recorded one."""
        self.journal_bytes = 0
        """Of the last step that was written."""
        self.closing = False
        """Whether the next write is the last: it waits for numbers that are still on a device."""
        self.dropped = 0
        self._misfits: list[str] = []
        self._told: set[str] = set()

    # -- collecting -------------------------------------------------------------------------------------------------------

    def add_tensor_stats(
        self,
        tensor_id: int,
        phase: int,
        m: Moments,
        *,
        missing: bool = False,
        requires_grad: bool | None = None,
    ) -> int:
        """One row of tensor_stats; returns its seq."""
        position = self._position
        seq = position.seq
        position.seq = seq + 1
        if tensor_id in self._excluded:
            return seq
        self._stats.add(position.microbatch, seq, phase, tensor_id, m, missing, requires_grad)
        return seq

    def add_all_tensor_stats(
        self, tensor_ids: Sequence[int], phase: int, moments: Sequence[Moments], requires_grad: Sequence[bool | None]
    ) -> None:
        """A row of tensor_stats for each of many tensors, in their order."""
        position, excluded, add = self._position, self._excluded, self._stats.add
        microbatch, seq = position.microbatch, position.seq
        position.seq = seq + len(tensor_ids)
        if isinstance(moments, MomentTable) and (not excluded or excluded.isdisjoint(tensor_ids)):
            self._stats.add_all(microbatch, seq, phase, tensor_ids, moments, requires_grad)
            return
        for tensor_id, m, grad in zip(tensor_ids, moments, requires_grad, strict=True):
            if tensor_id not in excluded:
                add(microbatch, seq, phase, tensor_id, m, False, grad)
            seq += 1

    def add(self, table: str, **values: Any) -> Row:
        """A row of any other table; columns left out are null, but rank, step and microbatch are filled in.

        The row may be changed until the step is written: ``position.flushes`` tells. Raises RowError for a table or column
        that is not declared.
        """
        check_row(table, values.keys())
        position = self._position
        if position.unwatched:
            values.setdefault("step", position.step)  # it is written later
        if table in OF_MICROBATCHES:
            values.setdefault("microbatch", position.microbatch)
        self._of[table].append(values)
        return values

    def metric(
        self, name: str, value: "float | Late", step: int, source: str = "firstfault", logged_step: int | None = None
    ) -> None:
        """A row of `metrics`; written with the next step, or at the end."""
        self.add(
            "metrics", step=step, time_ns=time_ns(), name=name, value=value, source=source, logged_step=logged_step
        )

    def event(
        self, event: str, message: str, *, module_id: int | None = None, detail: dict[str, Any] | None = None
    ) -> None:
        """A row of `events`; written with the next step, or at the end."""
        position = self._position
        self.add(
            "events",
            time_ns=time_ns(),
            step=position.step,
            phase=int(position.phase),
            event=event,
            module_id=module_id,
            message=self._secrets.text(message),
            detail=json_text(self._secrets.value(detail)) if detail else None,
        )

    def misfit(self, what: str) -> None:
        """Say once of each kind that something does not fit its table; the step is written without it."""
        if row_checks.STRICT:
            raise RowError(what)
        if what not in self._told:
            self._told.add(what)
            self.event("recorder-fault", f"rows: {what}", detail={"part": "rows"})

    # -- what is still in the buffer ----------------------------------------------------------------------------------------

    @property
    def unfinished(self) -> bool:
        """Whether anything of a step has been collected that is not written yet."""
        return bool(self._stats or self._of["batches"])

    def stat_index(self) -> int:
        """Place that the next row of tensor_stats will have in the buffer, for ``move_stat``."""
        return self._stats.singles

    def move_stat(self, index: int, phase: int) -> None:
        """A row still in the buffer turns out to belong to another phase."""
        self._stats.move(index, phase)

    def put_moments(self, index: int, moments: Moments) -> None:
        """Other moments for a row still in the buffer."""
        self._stats.put(index, moments)

    # -- writing ----------------------------------------------------------------------------------------------------------

    def flush_evaluation(self) -> None:
        """Write what a long evaluation between two steps has collected, so that the buffer stays small."""
        if len(self._stats) > _MOST_BUFFERED:
            self._position.flushes += 1
            self.write(WRITE_ORDER)

    def write(self, tables: tuple[str, ...]) -> None:
        """Append the collected rows of these tables to the journal, those of a step whose numbers are still on a device
        later. What the disk does not take is lost, and said."""
        misfits, self._misfits = self._misfits, []
        for what in misfits:
            self.misfit(what)
        if self.journal is None:
            return
        self._of["modules"] += self._catalogue.take_module_rows()
        self._of["tensors"] += self._catalogue.take_tensor_rows()
        whole = "tensor_stats" in tables
        bundle = _Bundle(
            self._position.step, [page for device in all_devices() for page in device.seal()] if whole else []
        )
        for name in tables:
            if name == "tensor_stats":
                bundle.stats, self._stats = self._stats, StatRows()
            elif rows := self._of[name]:
                bundle.rows[name] = rows
                self._of[name] = []
        waiting = self._waiting
        waiting.append(bundle)
        refused: list[OSError] = []
        while waiting and (self.closing or waiting[0].ready() or len(waiting) > _MOST_WAITING):
            try:
                self._append(waiting.popleft(), self.journal)
            except OSError as e:
                refused.append(e)
        for error in refused:
            self._say_refused(error)

    def write_at_once(self, rows: list[Row]) -> None:
        """Append complete rows of `unwatched_steps` to the journal."""
        if self.journal is not None:
            try:
                self.journal_bytes = self.journal.append({STEP_VALUES: {"unwatched_steps": rows}})
            except OSError as e:
                self._say_refused(e)

    def _say_refused(self, refused: OSError) -> None:
        self.dropped += 1
        if self.dropped == 1:
            warn("journal", f"{self._run}: {refused.strerror}; rows are dropped and counted, training goes on")
        self.event(
            "rows-dropped",
            f"the journal did not take a step: {refused.strerror}",
            detail={"steps_dropped": self.dropped},
        )

    def _append(self, bundle: _Bundle, journal: JournalWriter) -> None:
        """Write rows whose values have all arrived, or wait for them."""
        bundle.stats.arrived()
        batches: dict[str, pa.RecordBatch | dict[str, list[Row]]] = {}
        few = bundle.rows
        if (batch := bundle.stats.batch(self._catalogue.rank, bundle.step)) is not None:
            batches["tensor_stats"] = batch
        elif bundle.stats:
            few["tensor_stats"] = bundle.stats.rows()
        if few:
            self._complete(bundle.step, few, late=bool(bundle.pages))
            batches[STEP_VALUES] = few
        for page in bundle.pages:
            stats_of_device(page.device).reuse(page)
        self.journal_bytes = journal.append(batches)

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
                        row[column] = wait_for(value)
