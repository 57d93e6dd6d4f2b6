"""Keeps a run folder in order while the run goes on: segments become parts, small parts are merged, old detail is thinned."""

import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from ...schemas import TABLES
from ...schemas.files.layout import SUPERVISOR_RANK
from ..base.options import options_of
from .attempt import attempt_of
from .compaction import compact
from .journal import JournalWriter
from .merging import merge
from .profiler_traces import Converted, convert
from .retention import Retention

MERGE_EVERY_S = 60.0
MEASURE_EVERY_S = 10.0
"""Between two looks at the size of the folder."""


def _say(sentence: str) -> None:
    sys.stderr.write(f"firstfault: {sentence}\n")


class Housekeeping:
    """Called by the supervisor once a second, by the Python API every ten; never by the training's own thread.

    ``journal`` takes the supervisor's rows; without it one is opened when there is something to write.
    """

    def __init__(
        self,
        run: Path,
        journal: JournalWriter | None = None,
        say: Callable[[str], None] = _say,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run = run
        self._clock = clock
        self._journal = journal
        self._first_part = attempt_of(run).first_part
        self._merged_at = self._measured_at = clock()
        options = options_of(run)
        self._retention: Retention | None = None
        if options.disk_limit_bytes is not None:
            self._retention = Retention(run, options.disk_limit_bytes, options.keep, self._open_journal, say)

    def look(self) -> None:
        """Do what is due. Raises OSError, and CompactionError where something could not be written; nothing is lost then."""
        convert(self._run, self._profiled)
        compact(self._run, finished=False)
        if self._clock() - self._merged_at >= MERGE_EVERY_S:
            self._merged_at = self._clock()
            merge(self._run, first=self._first_part)
        if self._retention is not None and self._clock() - self._measured_at >= MEASURE_EVERY_S:
            self._measured_at = self._clock()
            self._retention.enforce(first_part=self._first_part)

    def finish(self) -> None:
        """The training has ended. Raises as ``look`` does."""
        convert(self._run, self._profiled)
        self._close_journal()
        compact(self._run, finished=True)
        if self._retention is not None and self._retention.enforce(first_part=self._first_part):
            self._close_journal()
            compact(self._run, finished=True)
        merge(self._run, first=self._first_part, finished=True)

    def _profiled(self, window: Converted) -> None:
        """Say what was left out of a profiler window, if anything was."""
        if window.dropped or not window.events:
            row = {
                "rank": window.facts.rank,
                "time_ns": time.time_ns(),
                "step": window.facts.steps[0][0],
                "event": "profile-incomplete",
                "message": f"of profiler window {window.facts.window} {window.events} events were kept and {window.dropped} "
                "that cannot be true were left out",
                "detail": f'{{"window":{window.facts.window},"kept":{window.events},"dropped":{window.dropped}}}',
            }
            batch = pa.RecordBatch.from_pylist([row], TABLES["events"].schema)
            self._open_journal().append({"events": batch})

    def _open_journal(self) -> JournalWriter:
        if self._journal is None:
            self._journal = JournalWriter(self._run, SUPERVISOR_RANK, self._first_part)
        return self._journal

    def _close_journal(self) -> None:
        """Its segments become parts now: what comes after needs new ones."""
        if self._journal is not None:
            self._journal.rotate()
