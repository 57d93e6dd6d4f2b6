"""What stands between the recorder and the training: nothing of the recorder raises into it, and what it takes is counted."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import perf_counter_ns
from typing import Any

from torch.compiler import is_compiling

from ...schemas.files.secrets import Redactor
from ..base.process_notes import note_process
from ..base.terminal import warn
from ..script.signal_handlers import raised_by_signal_handler
from ..tensors.device import is_lost
from . import row_checks
from .budget import Budget, Kind
from .row_checks import RowError
from .rows import Rows

_WORDS = 300
"""Characters of an error's message: torch lists every backend that lacks an operator."""


class Guard:
    """Guards the hooks of one session: a part that fails is switched off, said once, and written as an event."""

    def __init__(self, run: Path, rows: Rows, budget: Budget, secrets: Redactor) -> None:
        self._run = run
        self._rows = rows
        self._budget = budget
        self._secrets = secrets
        self.alive = True
        """Whether this process is recorded, or may yet be. Only the session says no for good."""
        self.off: set[str] = set()
        """Parts that have failed."""
        self.faults = 0
        """How many those are."""
        self._lost = False
        """Whether a device was found to answer nothing more."""
        self.recorder_ns = 0
        """What the recorder took since the last row of `steps`."""
        self._entered = 0
        """When the hook in progress began, or when the last row of `steps` was made in it; 0 outside hooks."""
        self.hook_began_ns = 0
        """When the outermost hook in progress, or the last one, began."""
        self.mark: Callable[[], Any] | None = None
        """While a profiler window is open: makes a range that marks the recorder's own work in the trace."""
        self._open_mark: Any = None

    def guarded(self, part: str, hook: Callable[..., Any], kind: Kind | None = None) -> Callable[..., Any]:
        """A hook that never raises into the training, keeps account of its time, and stays off once it has failed.

        Where all that it does is measure one costly ``kind``, its time is that kind's price.
        """
        off = self.off

        def call(*args: Any, **kwargs: Any) -> Any:
            if is_compiling() or not self.alive or part in off:
                return None  # torch.compile folds this away: no graph break
            if self._entered and kind is None:  # within another hook, whose time this is
                try:
                    return hook(*args, **kwargs)
                except Exception as e:
                    if raised_by_signal_handler(e):
                        raise
                    self.fault(part, e)
                    return None
            began = perf_counter_ns()
            inside = self._entered
            if not inside:
                self._entered = self.hook_began_ns = began
                if self.mark is not None:
                    self._open_mark = self.mark()
                    self._open_mark.__enter__()
            try:
                return hook(*args, **kwargs)
            except Exception as e:
                if raised_by_signal_handler(e):
                    raise  # without the recorder it would have come up a moment later
                self.fault(part, e)  # a recorder that raises into a training is worse than none
                return None
            finally:
                ended = perf_counter_ns()
                if not inside:
                    if self._open_mark is not None:
                        self.end_mark()
                    self.recorder_ns += ended - self._entered
                    self._entered = 0
                if kind is not None:
                    self._budget.spent(kind, ended - began)

        return call

    @property
    def undisturbed(self) -> bool:
        """Whether a hook may call ``enter``, ``leave`` and ``caught`` itself instead of being ``guarded``: no part has failed, no
        profiler window is open, and no other hook is in progress."""
        return self.alive and not self.off and not self._entered and self.mark is None

    def enter(self, began: int) -> None:
        """A hook begins, as one that is ``guarded`` would."""
        self._entered = self.hook_began_ns = began

    def leave(self) -> None:
        """It ends."""
        self.recorder_ns += perf_counter_ns() - self._entered
        self._entered = 0

    def caught(self, part: str, error: Exception) -> None:
        """It has raised. Raises again what a signal handler of the script has raised: it would have come up a moment later."""
        if raised_by_signal_handler(error):
            raise error
        self.fault(part, error)

    def end_mark(self) -> None:
        """End the mark of the hook in progress, if it has one: a range must not outlive the profiler it was begun under."""
        mark, self._open_mark = self._open_mark, None
        if mark is not None:
            mark.__exit__(None, None, None)

    def until_row(self) -> int:
        """When a row of `steps` is made: the hook that makes it has taken its time for that row until now."""
        now = perf_counter_ns()
        if self._entered:
            self.recorder_ns += now - self._entered
            self._entered = now
        return now

    def fault(self, part: str, error: Exception) -> None:
        """Say once that a part of the recorder failed, and switch it off."""
        if row_checks.STRICT and isinstance(error, RowError):
            raise error
        self.off.add(part)
        if is_lost(error):  # not the part's fault; the script's own next call to the device will say so
            if not self._lost:
                self._lost = True
                self._rows.event("device-lost", f"{type(error).__name__}: {str(error).splitlines()[0][:_WORDS]}")
            return
        self.faults += 1
        where = error.__traceback__
        while where is not None and where.tb_next is not None:
            where = where.tb_next
        line = f"{Path(where.tb_frame.f_code.co_filename).name}:{where.tb_lineno}" if where is not None else "?"
        words = f"{type(error).__name__}: {' '.join(str(error).split())[:_WORDS]}"
        warn(part, f"{words} (at {line}); this part of the recording is switched off, training goes on")
        self._rows.event(
            "recorder-fault",
            f"{part} switched itself off: {words}",
            detail={"part": part, "at": line},
        )
        note_process(self._run, fault=(part, self._secrets.text(words)))
        with suppress(Exception):  # at once: the part may be the one that writes
            self._rows.write(("events",))
