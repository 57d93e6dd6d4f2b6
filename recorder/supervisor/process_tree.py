"""What the process tree of a script takes, and what its control group grants: one row of system_samples a second."""

import contextlib
import re
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from .descendants import Descendants
from .memory_shares import SharesWatch, runnable_threads

_UNLIMITED = 2**60
"""cgroup v1 writes an absent limit as the largest page-aligned 63-bit number."""


@dataclass(frozen=True, slots=True)
class GroupMemory:
    """Memory of the tightest control group above the script, in bytes; kills are counted by the kernel since the
    group was made.

    ``used`` leaves out the page cache, which the kernel gives back before it kills: a training that streams its data
    set has its group's usage at the limit all day.
    """

    used: int | None
    limit: int | None
    oom_kills: int | None


@dataclass(frozen=True, slots=True)
class Sample:
    """One row of system_samples; fields as declared there."""

    time_ns: int
    processes: int
    rss_bytes: int
    cpu_percent: float | None
    threads: int
    runnable: int
    memory_used_bytes: int | None
    memory_limit_bytes: int | None
    oom_kills: int | None
    pss_bytes: int | None
    workers: int | None
    worker_private_bytes: int | None


class ProcessTree:
    """Samples a process and its descendants. CPU is a difference, so the first sample has none."""

    def __init__(self, pid: int, group: "ControlGroup | None" = None) -> None:
        self._members = Descendants(pid)
        self._group = group or ControlGroup.own()
        self._cpu_s: dict[tuple[int, float], float] = {}
        self._before_ns: int | None = None
        self._shares = SharesWatch()

    def sample(self) -> Sample | None:
        """Now; None once the script is gone."""
        now_ns = time.time_ns()
        processes = rss = threads = runnable = 0
        cpu_s: dict[tuple[int, float], float] = {}
        for pid in self._members.look():
            # it may end while we look: then it takes nothing
            with contextlib.suppress(psutil.Error), (process := psutil.Process(pid)).oneshot():
                if process.status() == psutil.STATUS_ZOMBIE:
                    continue
                times = process.cpu_times()
                rss += process.memory_info().rss
                threads += process.num_threads()
                runnable += runnable_threads(process.pid)
                cpu_s[process.pid, process.create_time()] = times.user + times.system
                processes += 1
        if not processes:
            return None
        cpu_percent = None
        if self._before_ns is not None and now_ns > self._before_ns:
            spent = sum(max(0.0, s - self._cpu_s.get(who, 0.0)) for who, s in cpu_s.items())
            cpu_percent = 100 * spent * 1e9 / (now_ns - self._before_ns)
        self._cpu_s, self._before_ns = cpu_s, now_ns
        memory = self._group.memory()
        shares = self._shares.look(pid for pid, _ in cpu_s)
        return Sample(
            time_ns=now_ns,
            processes=processes,
            rss_bytes=rss,
            cpu_percent=cpu_percent,
            threads=threads,
            runnable=runnable,
            memory_used_bytes=memory.used,
            memory_limit_bytes=memory.limit,
            oom_kills=memory.oom_kills,
            pss_bytes=shares.pss_bytes if shares else None,
            workers=shares.workers if shares else None,
            worker_private_bytes=shares.worker_bytes if shares else None,
        )


class ControlGroup:
    """The memory control group of this process, v2 or v1, and those above it."""

    def __init__(self, folders: list[Path], *, version: int) -> None:
        self._folders = folders
        self._version = version

    @classmethod
    def own(cls, proc: Path = Path("/proc/self")) -> "ControlGroup":
        """From /proc/self/cgroup and mountinfo; without either a group that knows nothing."""
        try:
            membership = (proc / "cgroup").read_text()
            mounts = (proc / "mountinfo").read_text()
        except OSError:
            return cls([], version=2)
        paths: dict[str, str] = {}
        for line in membership.splitlines():
            _, controllers, path = line.split(":", 2)
            for controller in controllers.split(","):
                paths[controller] = path
        v1, v2 = _mount(mounts, "cgroup", "memory"), _mount(mounts, "cgroup2", None)
        if v1 is not None and "memory" in paths:
            return cls(_chain(*v1, paths["memory"]), version=1)
        if v2 is not None and "" in paths:
            return cls(_chain(*v2, paths[""]), version=2)
        return cls([], version=2)

    def memory(self) -> GroupMemory:
        """Use and limit of the tightest group, of the host where no group has a limit; nulls where nothing can be
        read."""
        v2 = self._version == 2
        limits = [(_number(f / ("memory.max" if v2 else "memory.limit_in_bytes")), f) for f in self._folders]
        bounded = [(limit, f) for limit, f in limits if limit is not None and limit < _UNLIMITED]
        kills = None
        if self._folders:
            kills = _field(self._folders[0] / ("memory.events" if v2 else "memory.oom_control"), "oom_kill")
        host = psutil.virtual_memory()
        if not bounded or min(bounded)[0] >= host.total:
            return GroupMemory(host.total - host.available, host.total, kills)
        limit, folder = min(bounded)
        used = _number(folder / ("memory.current" if v2 else "memory.usage_in_bytes"))
        if used is not None:
            prefix = "" if v2 else "total_"
            for cache in ("inactive_file", "active_file"):
                used -= _field(folder / "memory.stat", prefix + cache) or 0
        return GroupMemory(used, limit, kills)


def _mount(mountinfo: str, filesystem: str, option: str | None) -> tuple[Path, str] | None:
    """(mount point, root inside the file system) of a cgroup mount; format as in proc(5)."""
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        kind, _, options = right.split(" ", 2)
        if kind == filesystem and (option is None or option in re.split(r"[ ,]", options)):
            fields = left.split(" ")
            return Path(fields[4]), fields[3]
    return None


def _chain(mount: Path, root: str, path: str) -> list[Path]:
    """Folders from the group upwards to the mount. In a container the path may not be visible: then the mount is the
    group."""
    inside = path.removeprefix(root.rstrip("/")) if path.startswith(root.rstrip("/") + "/") or path == root else path
    folder = mount / inside.strip("/")
    if not folder.is_dir():
        return [mount]
    return [folder, *(p for p in folder.parents if p.is_relative_to(mount))]


def _number(path: Path) -> int | None:
    """A file with one number; None for `max`, and where the kernel does not show it."""
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def _field(path: Path, key: str) -> int | None:
    """One line `key value` of a flat keyed file."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        name, _, value = line.partition(" ")
        if name == key and value.strip().isdigit():
            return int(value)
    return None
