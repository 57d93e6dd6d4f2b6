"""How many threads torch computes with, where the script changes that while it trains."""

import torch

from ..session.patches import Patches
from ..session.session import Session

_MOST_EVENTS = 50


class ThreadWatch:
    """Writes an event in the step in which ``torch.get_num_threads()`` has become another."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._threads: int | None = None
        self._events = 0
        session.at_finish.append(("threads", self._look))

    def install(self, patches: Patches) -> None:
        """Nothing is put into torch."""

    def _look(self) -> None:
        now = torch.get_num_threads()
        before, self._threads = self._threads, now
        if before is None or now == before or self._events == _MOST_EVENTS:
            return
        self._events += 1
        self.session.event(
            "threads-changed",
            f"torch computes with {now} threads now, {before} before",
            detail={"threads": now, "before": before},
        )
