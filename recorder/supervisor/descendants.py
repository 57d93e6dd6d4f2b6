"""The processes below a script, found at the cost of a listing: a busy host has thousands, and this looks every second."""

import os
from collections import defaultdict
from pathlib import Path


class Descendants:
    """A process and those that it and they have started.

    A process of somebody else is read once. It never becomes one of ours, since an orphan goes to the reaper.
    """

    def __init__(self, pid: int, proc: Path = Path("/proc")) -> None:
        self._root = pid
        self._proc = proc
        self._others: set[int] = set()

    def look(self) -> list[int]:
        """Their numbers now, parents before children; empty once the first has been waited for."""
        alive = {int(name) for name in os.listdir(self._proc) if name.isdigit()}  # noqa: PTH208 - thousands, a second
        if self._root not in alive:
            return []
        self._others &= alive
        parents = {pid: parent for pid in alive - self._others if (parent := self._parent(pid)) is not None}
        children = defaultdict(list)
        for pid, parent in sorted(parents.items()):
            children[parent].append(pid)
        found = [self._root]
        for pid in found:
            found += children[pid]
        # of one that was listed before its parent began nothing is known yet
        self._others |= {pid for pid, parent in parents.items() if parent in alive or not parent} - set(found)
        return found

    def _parent(self, pid: int) -> int | None:
        """None where it has just ended."""
        try:
            stat = (self._proc / str(pid) / "stat").read_bytes()
        except OSError:
            return None
        return int(stat.rpartition(b") ")[2].split()[1])
