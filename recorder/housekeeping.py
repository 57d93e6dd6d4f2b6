"""Keeps a run folder in order while the run goes on: segments become parts, small parts are merged."""

import time
from collections.abc import Callable
from pathlib import Path

from .attempt import attempt_of
from .compaction import compact
from .merging import merge

MERGE_EVERY_S = 60.0


class Housekeeping:
    """Called by the supervisor once a second, by the Python API every ten; never by the training's own thread."""

    def __init__(self, run: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._run = run
        self._first_part = attempt_of(run).first_part
        self._clock = clock
        self._merged_at = clock()

    def look(self) -> None:
        """Do what is due. Raises OSError, and CompactionError where something could not be written; nothing is lost then."""
        compact(self._run, finished=False)
        if self._clock() - self._merged_at >= MERGE_EVERY_S:
            self._merged_at = self._clock()
            merge(self._run, first=self._first_part)

    def finish(self) -> None:
        """The training has ended. Raises as ``look`` does."""
        compact(self._run, finished=True)
        merge(self._run, first=self._first_part, finished=True)
