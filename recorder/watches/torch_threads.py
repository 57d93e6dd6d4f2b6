"""How many threads torch computes with, where the script changes that while it trains."""

import torch

from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Watch

_MOST_EVENTS = 50


class ThreadWatch(Watch):
    """Writes an event in the step in which ``torch.get_num_threads()`` has become another."""

    name = "threads"
    writes = ("events:threads-changed",)

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._threads: int | None = None
        self._events = 0

    def listen(self, signals: Signals) -> None:
        """Look at each step."""
        signals.row_ends.connect(self.name, self._compare_threads)

    def _compare_threads(self) -> None:
        now = torch.get_num_threads()
        before, self._threads = self._threads, now
        if before is None or now == before or self._events == _MOST_EVENTS:
            return
        self._events += 1
        self.session.rows.event(
            "threads-changed",
            f"torch computes with {now} threads now, {before} before",
            detail={"threads": now, "before": before},
        )
