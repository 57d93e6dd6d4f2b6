"""Runs that nobody wrote an end for: whether they still go on, and where each rank was last heard of."""

import contextlib
import socket
import time
from pathlib import Path
from typing import Any

import psutil

from ...schemas import Position, RunManifest, read_breadcrumb
from ...schemas.files.layout import breadcrumb_path, rank_of, segments

HEARTBEAT_S = 120.0
"""A run on another host that has written nothing for so long has ended: its supervisor writes once a second. Clocks of two
hosts may differ by as much."""


def positions_left(run: Path) -> dict[int, Position]:
    """Rank → its breadcrumb."""
    found = ((rank_of(path.stem), read_breadcrumb(path)) for path in breadcrumb_path(run, 0).parent.glob("*.bin"))
    return {rank: position for rank, position in found if rank is not None and position is not None}


def last_sign_of_life(run: Path) -> float | None:
    """When anything of the run was last written, in seconds since 1970; None where nothing was."""
    signs = [p.time_ns / 1e9 for p in positions_left(run).values()]
    for *_, path in segments(run):
        with contextlib.suppress(FileNotFoundError):
            signs.append(path.stat().st_mtime)
    return max(signs, default=None)


def recorded_here(manifest: RunManifest) -> bool:
    """Whether this is the host that the run was started on, so that its processes can be looked for."""
    return manifest.hostname == socket.gethostname()


def goes_on(run: Path, manifest: RunManifest) -> bool:
    """Whether a run without an exit record is still being recorded: its processes live, or, seen from another host, it has
    given a sign of life just now."""
    if recorded_here(manifest):
        pids = {manifest.pid} | {p.pid for p in positions_left(run).values()}
        return any(_alive(pid, manifest.started_ns) for pid in sorted(pids))
    sign = last_sign_of_life(run)
    return sign is not None and abs(time.time() - sign) < HEARTBEAT_S


def lost_position_rows(run: Path, modules: dict[tuple[int, int], str]) -> list[dict[str, Any]]:
    """Rows of `last_positions` from the breadcrumbs; ``modules`` is (rank, module_id) → name."""
    return [
        {
            "rank": rank,
            "pid": p.pid,
            "time_ns": p.time_ns,
            "step": p.step,
            "microbatch": p.microbatch,
            "phase": p.phase.name.lower(),
            "module": modules.get((rank, p.module_id)),
        }
        for rank, p in sorted(positions_left(run).items())
    ]


def _alive(pid: int, started_ns: int) -> bool:
    """Whether the process lives and is no later user of the same number (a minute for the clocks to disagree)."""
    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and process.create_time() < started_ns / 1e9 + 60
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True
