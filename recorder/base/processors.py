"""How many processors this process may use: its affinity, and the share that its control group grants."""

import math
import os
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")


def usable_processors(root: Path = _ROOT, membership: Path = Path("/proc/self/cgroup")) -> int:
    """Processors in the affinity mask, or the quota of the control group (v2 cpu.max, v1 cfs quota; rounded up) where that
    is less. What the kernel does not show counts as no limit."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quotas = [q for folder in _folders(root, membership) if (q := _quota(folder)) is not None]
    return max(1, min([count, *(math.ceil(q) for q in quotas)]))


def _folders(root: Path, membership: Path) -> list[Path]:
    """The group's own folders and those above it; in a container only the mount itself is to be seen."""
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        lines = []
    found = [root, root / "cpu", root / "cpu,cpuacct"]
    for line in lines:
        _, controllers, path = line.split(":", 2)
        top = root if not controllers else root / controllers
        if not controllers or "cpu" in controllers.split(","):
            own = top / path.strip("/")
            found += [f for f in (own, *own.parents) if f.is_relative_to(top)]
    return list(dict.fromkeys(found))


def _quota(folder: Path) -> float | None:
    try:
        if (folder / "cpu.max").exists():
            quota, _, period = (folder / "cpu.max").read_text().partition(" ")
        else:
            quota = (folder / "cpu.cfs_quota_us").read_text()
            period = (folder / "cpu.cfs_period_us").read_text()
        return int(quota) / int(period) if int(quota) > 0 else None
    except (OSError, ValueError, ZeroDivisionError):
        return None  # no such file, or `max`
