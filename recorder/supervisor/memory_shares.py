"""Proportional memory of a process tree: pages that several processes share are divided among them, so that sums are true.

The kernel walks the page tables for it, so it is asked for seldom: measurements together take at most a fraction of the time,
a larger one at the start, when loader workers copy what they share with the main process.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

WORKER = "pt_data_worker"
"""Name that torch's DataLoader gives to its worker processes."""

_FIRST = 6
_SHARE_FIRST = 1 / 10
_SHARE = 1 / 500
"""Of the time, for the first measurements and for later ones."""


@dataclass(frozen=True, slots=True)
class Shares:
    """One measurement of a tree, in bytes; ``worker_bytes`` is what its loader workers hold for themselves."""

    pss_bytes: int
    workers: int
    worker_bytes: int


@dataclass(frozen=True, slots=True)
class Proportion:
    """Memory of one process in bytes: its share of all, its share of anonymous memory, and that memory undivided."""

    pss: int
    anonymous_pss: int
    anonymous: int

    def own(self, sharing: int) -> int:
        """Anonymous memory that the process does not share, where ``sharing`` processes share the rest evenly.

        With p own and s shared bytes: undivided = p + s, share = p + s / n, so p = (n * share - undivided) / (n - 1).
        """
        if sharing < 2:
            return self.anonymous
        own = (sharing * self.anonymous_pss - self.anonymous) // (sharing - 1)
        return min(max(own, 0), self.anonymous)


class SharesWatch:
    """Measures a tree when it is due."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._due = 0.0
        self._count = 0

    def look(self, pids: Iterable[int]) -> Shares | None:
        """The shares now; None where it is not due, or no process can be read (another user's, an old kernel)."""
        began = self._clock()
        if began < self._due:
            return None
        found = {pid: p for pid in pids if (p := proportion(Path(f"/proc/{pid}"))) is not None}
        workers = [pid for pid in found if _is_forked_worker(Path(f"/proc/{pid}"))]
        own = sum(found[pid].own(len(workers) + 1) for pid in workers)
        if workers:  # before there are any the start is not over
            self._count += 1
        ended = self._clock()
        self._due = ended + (ended - began) / (_SHARE_FIRST if self._count < _FIRST else _SHARE)
        return Shares(sum(p.pss for p in found.values()), len(workers), own) if found else None


def proportion(process: Path) -> Proportion | None:
    """Of a process in /proc; None where it cannot be read."""
    try:
        text = (process / "smaps_rollup").read_text("ascii", "replace")
    except OSError:
        return None
    sizes: dict[str, int] = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name in {"Pss", "Pss_Anon", "Anonymous"}:
            sizes[name] = int(value.split()[0]) * 1024
    if len(sizes) < 3:
        return None  # a kernel before 5.9
    return Proportion(sizes["Pss"], sizes["Pss_Anon"], sizes["Anonymous"])


def runnable_threads(pid: int) -> int:
    """Threads of a process that run or wait for a processor."""
    count = 0
    for task in Path(f"/proc/{pid}/task").glob("*/stat"):
        try:
            state = task.read_bytes().rpartition(b") ")[2][:1]
        except OSError:
            continue  # it has just ended
        count += state == b"R"
    return count


def _is_forked_worker(process: Path) -> bool:
    """Whether it is a worker that began as a copy of the main process; one that was spawned shares nothing from the start."""
    try:
        if (process / "comm").read_text("utf-8", "replace").strip() != WORKER:
            return False
        return b"multiprocessing" not in (process / "cmdline").read_bytes()
    except OSError:
        return False
