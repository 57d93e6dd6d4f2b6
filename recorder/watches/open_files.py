"""How many descriptors the process holds open: a file, socket or piece of shared memory that is never let go of is one more."""

import os
from pathlib import Path

from ...schemas.files.step_values import Row
from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Watch

_FOLDER = Path("/proc/self/fd")
_EVERY = 8
"""Steps between two counts: 20 to 200 us, by how many there are."""

_MANY = 2000
_SELDOM = 64
"""Steps between two counts of more than _MANY."""


class OpenFiles(Watch):
    """Fills ``steps.open_files`` in every eighth step or the next one that is watched, and ``ranks.open_files_limit``."""

    name = "open-files"
    writes = ("steps.open_files", "ranks.open_files_limit")

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._every = _EVERY
        self._next = session.attempt.first_step
        """Step from which on they are counted again: a step that nobody watches is passed over."""

    def listen(self, signals: Signals) -> None:
        """Count now and then, where the system tells."""
        if _FOLDER.is_dir():
            signals.row_ends.connect(self.name, self._count)
            signals.recording_begins.connect(self.name, _limit)

    def _count(self) -> None:
        session = self.session
        if session.position.step < self._next:
            return
        count = sum(1 for _ in os.scandir(_FOLDER)) - 1  # that of the listing itself
        self._every = _SELDOM if count > _MANY else _EVERY
        self._next = session.position.step + self._every
        session.step_row.facts["open_files"] = count


def _limit(row: Row) -> None:
    import resource  # noqa: PLC0415 — not there on every system

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    row["open_files_limit"] = None if soft == resource.RLIM_INFINITY else soft
