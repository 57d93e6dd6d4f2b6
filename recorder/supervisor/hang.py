"""Tells a run that hangs from one that is slow, and has the threads of its processes write down where they stand.

Progress is any change of a rank's breadcrumb or any byte added to the journal; CPU use is none, because a deadlock
may spin. The supervisor only reads files for it. Stacks are written by the process itself: faulthandler answers a
real-time signal that scripts do not use, in C, without the interpreter's lock, and restarts what it interrupts.
"""

import contextlib
import os
import statistics
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ...schemas import read_breadcrumb
from ...schemas.files.breadcrumb import Position
from ...schemas.files.layout import JOURNAL, SUPERVISOR_RANK, breadcrumb_path, rank_folder
from ..base.stacks_on_demand import STACK_SIGNAL

LEAST_S = 300.0
"""A pause shorter than this is never a hang by default: evaluations and checkpoints take minutes."""

STEPS = 20
"""So many usual steps without progress are a hang by default."""


@dataclass
class HangWatch:
    """Looks for progress once a sample. ``timeout_s`` is the user's limit in seconds; None is 20 usual steps, at least
    five minutes."""

    run: Path
    timeout_s: float | None
    say: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    hanging: bool = False
    _seen: object = None
    _stood: dict[str, Position] = field(default_factory=dict)
    _since: float | None = None
    _step: int | None = None
    _step_at: float = 0.0
    _paces: deque[float] = field(default_factory=lambda: deque(maxlen=50))

    def look(self) -> list[int]:
        """Look once; process ids of the ranks when a hang has just been found (stacks are asked for), else none."""
        now = self.clock()
        positions = self._positions()
        if not positions:
            return []  # nothing trains yet: imports and downloads take what they take
        self._learn(max(p.step for p in positions.values()), now)
        seen = (positions, self._journal_sizes())
        if self.hanging and positions == self._stood:
            return []  # what an ending process still writes into its journal is no progress
        if self._since is None or seen != self._seen:
            if self.hanging:
                self.say("it goes on: there is progress again")
            self._seen, self._since, self.hanging = seen, now, False
            return []
        if now - self._since < self.limit():
            return []
        self.hanging, self._stood = True, positions
        pids = sorted({p.pid for p in positions.values()})
        asked = [pid for pid in pids if ask_for_stacks(pid)]
        stacks = "the stacks of its threads are in native/" if asked else "its stacks could not be had"
        self.say(f"[hang] no progress for {now - self._since:.0f} s; {stacks} of the run folder")
        return pids

    def limit(self) -> float:
        """Seconds without progress that count as a hang now."""
        if self.timeout_s is not None:
            return self.timeout_s
        return max(LEAST_S, STEPS * statistics.median(self._paces)) if self._paces else LEAST_S

    def note(self) -> str | None:
        """For the exit record: how long nothing moved, where the run still stood still at its end."""
        if not self.hanging or self._since is None or self._positions() != self._stood:
            return None
        return f"no progress for {self.clock() - self._since:.0f} s"

    def _positions(self) -> dict[str, Position]:
        paths = breadcrumb_path(self.run, 0).parent.glob("*.bin")
        return {p.name: position for p in paths if (position := read_breadcrumb(p)) is not None}

    def _learn(self, step: int, now: float) -> None:
        if self._step is not None and step > self._step:
            self._paces.append((now - self._step_at) / (step - self._step))
        if step != self._step:
            self._step, self._step_at = step, now

    def _journal_sizes(self) -> dict[str, int]:
        sizes: dict[str, int] = {}
        for folder in (self.run / JOURNAL).glob("*"):
            if folder.name != rank_folder(SUPERVISOR_RANK):  # our own samples are no progress of the script
                for path in folder.rglob("*"):
                    with contextlib.suppress(FileNotFoundError):  # just made into a part
                        sizes[str(path)] = path.stat().st_size
        return sizes


def ask_for_stacks(pid: int) -> bool:
    """Send the signal if the process answers it; whether it was sent."""
    try:
        status = Path(f"/proc/{pid}/status").read_text("ascii", "replace")
        caught = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigCgt:"))
        if not caught >> (STACK_SIGNAL - 1) & 1:
            return False
        os.kill(pid, STACK_SIGNAL)
    except (OSError, StopIteration, ValueError):
        return False
    return True
