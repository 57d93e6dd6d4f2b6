"""How many descriptors the process holds open: a file, socket or piece of shared memory that is never let go of is one more."""

import os
from pathlib import Path

from ..session.patches import Patches
from ..session.session import Session

_FOLDER = Path("/proc/self/fd")
_EVERY = 8
"""Steps between two counts: 20 to 200 us, by how many there are."""

_MANY = 2000
_SELDOM = 64
"""Steps between two counts of more than _MANY."""


class OpenFiles:
    """Fills ``steps.open_files`` in every eighth step or the next one that is watched, and ``ranks.open_files_limit``."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._every = _EVERY
        self._next = session.attempt.first_step
        """Step from which on they are counted again: a step that nobody watches is passed over."""
        if _FOLDER.is_dir():
            session.at_finish.append(("open-files", self._count))
            session.rank_facts.append(session.guarded("open-files", _limit))

    def install(self, patches: Patches) -> None:
        """Nothing is put into torch."""

    def _count(self) -> None:
        session = self.session
        if session.step < self._next:
            return
        count = sum(1 for _ in os.scandir(_FOLDER)) - 1  # that of the listing itself
        self._every = _SELDOM if count > _MANY else _EVERY
        self._next = session.step + self._every
        session.facts["open_files"] = count


def _limit() -> dict[str, int | None]:
    import resource  # noqa: PLC0415 — not there on every system

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return {"open_files_limit": None if soft == resource.RLIM_INFINITY else soft}
