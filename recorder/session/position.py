"""Where the process stands: its step, its phase, and what of torch is in progress."""

import contextlib
import os
import threading
from pathlib import Path
from time import time_ns

from ...schemas import BreadcrumbWriter, Phase
from ...schemas.files.layout import breadcrumb_path, unwatched_rows_path
from ...schemas.files.unwatched_rows import UnwatchedRowsWriter


class Position:
    """Read by everybody. The session writes ``step``, ``flushes`` and ``unwatched``, the parts of loop/ the rest, each attribute
    one of them; ``seq`` grows with what is captured."""

    __slots__ = (
        "_breadcrumb",
        "_rows",
        "_rows_path",
        "flushes",
        "in_backward",
        "last_microbatches",
        "loading",
        "microbatch",
        "phase",
        "saved_tensor_hooks_used",
        "seq",
        "step",
        "thread",
        "unwatched",
    )

    def __init__(self, first_step: int) -> None:
        self.step = first_step
        self.microbatch = 0
        """Backward passes since the last row of `steps`."""
        self.last_microbatches = 0
        """Backward passes that this row counts."""
        self.seq = 0
        """Order of capture within the step."""
        self.phase = Phase.DATA
        self.thread = threading.get_ident()
        """The thread that trains; others are not recorded."""
        self.in_backward = False
        self.loading = False
        """Whether a loader of torch is asked for its next batch."""
        self.saved_tensor_hooks_used = False
        """Whether the script uses saved-tensor hooks (activation checkpointing): saved tensors are then left alone."""
        self.unwatched = False
        """Whether nothing is measured and nothing noted of the step in progress: see loop/unwatched_steps.py."""
        self.flushes = 0
        """How often the rows of a step were written; what was collected before the last time cannot be changed any more."""
        self._breadcrumb: BreadcrumbWriter | None = None
        self._rows: UnwatchedRowsWriter | None = None
        self._rows_path: Path | None = None
        """Where the file of rows can be made."""

    @property
    def pending(self) -> bool:
        """Whether a backward has run since the last row of `steps`."""
        return self.microbatch > 0

    def next_seq(self) -> int:
        """The next number in the order of capture."""
        self.seq += 1
        return self.seq - 1

    def leave_breadcrumb(self, phase: Phase, module_id: int) -> None:
        """Leave the breadcrumb: where the process stands now."""
        self.phase = phase
        if self._breadcrumb is not None:
            self._breadcrumb.note(time_ns(), self.step, self.microbatch, phase, module_id)

    def count_step(self) -> int:
        """A step that goes unwatched is over; returns which."""
        step = self.step
        self.step = after = step + 1
        if self._breadcrumb is not None:
            self._breadcrumb.count(after)
        return step

    def begin_rows(self, step: int, time_ns: int) -> None:
        """Steps go unwatched from here on: a row of none tells of it."""
        if self._rows is None and self._rows_path is not None:
            path, self._rows_path = self._rows_path, None  # tried once: a disk that is full stays so
            with contextlib.suppress(OSError):
                self._rows = UnwatchedRowsWriter(path)
        self.keep_row(step, time_ns, 0, None)

    def keep_row(self, step: int, time_ns: int, steps: int, loss: float | None) -> None:
        """A row of `unwatched_steps` was made, which the journal takes later."""
        if self._rows is not None:
            self._rows.put(step, time_ns, steps, loss)

    def forget_rows(self) -> None:
        """The journal has every row."""
        if self._rows is not None:
            self._rows.remove()
            self._rows = None

    def rejoin_iteration(self, seq: int) -> None:
        """The iteration that seemed to be over goes on, after so many rows of it."""
        self.step -= 1
        self.seq = seq

    def begin_breadcrumb(self, run: Path, rank: int) -> None:
        """Recording begins in this thread: make the breadcrumb's file."""
        self.thread = threading.get_ident()
        self._breadcrumb = BreadcrumbWriter(breadcrumb_path(run, rank), os.getpid())
        self._rows_path = unwatched_rows_path(run, rank)

    def drop_breadcrumb(self) -> None:
        """The files are another process's, which this one was forked from."""
        self._breadcrumb = self._rows = self._rows_path = None
