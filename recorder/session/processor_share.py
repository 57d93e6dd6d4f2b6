"""How much of the time that a thread wants to compute it does: beside other work, or under a limit of processors, it waits."""

from pathlib import Path
from threading import get_ident


class ProcessorShare:
    """Reads what the kernel counts for the calling thread, from here on, or from the first question of another thread."""

    def __init__(self, counts: Path = Path("/proc/thread-self/schedstat")) -> None:
        self._counts = counts
        self._thread = get_ident()
        self._before = self._read()

    def share(self) -> float:
        """Time on a processor over that time and the time in which it waited for one; 1 where the kernel does not say.

        Sleeping, and waiting for a device or a file, is neither.
        """
        now = self._read()
        if self._thread != get_ident():
            self._thread, self._before = get_ident(), now
        if now is None or self._before is None:
            return 1.0
        ran, waited = (after - before for after, before in zip(now, self._before, strict=True))
        return ran / (ran + waited) if ran > 0 and waited >= 0 else 1.0

    def _read(self) -> tuple[int, int] | None:
        """Nanoseconds on a processor and in its queue, the first two fields of schedstat (kernel: sched-stats.rst)."""
        try:
            ran, waited, *_ = self._counts.read_bytes().split()
        except (OSError, ValueError):
            return None
        return int(ran), int(waited)
