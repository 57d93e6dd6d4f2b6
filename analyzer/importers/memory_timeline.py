"""A memory timeline of the profiler (`export_memory_timeline` as .json, .json.gz or .raw) into memory_events.

The raw form is a list of (time in ns or -1, action, bytes, category); the other one two lists, of times in µs and of the bytes of
each category at these times. Neither names its device or its steps.
"""

import json
from pathlib import Path
from typing import Any

from ..errors import ImportFileError
from .byte_streams import ByteStream
from .target import RunTarget

_LARGEST = 1 << 29

CATEGORIES = (
    "parameter", "optimizer_state", "input", "temporary", "activation", "gradient", "autograd_detail", "unknown",
)  # fmt: skip
"""In the order of torch/profiler/_memory_profiler.py."""


def import_memory_timeline(path: Path, target: RunTarget, label: str) -> str:  # noqa: ARG001 # as all importers have it
    """Read one timeline into the target. Returns what was found, in a few words."""
    with ByteStream(path) as stream:
        raw = stream.read(_LARGEST)
    try:
        whole = json.loads(raw)
    except (ValueError, RecursionError) as e:
        raise ImportFileError(f"{path}: is no whole JSON ({e}); export the memory timeline again") from e
    changes = _coalesced(whole) if _is_coalesced(whole) else _raw(whole)
    if not changes:
        raise ImportFileError(f"{path}: is no memory timeline of torch.profiler; give its .json or .raw export")
    rank = target.next_timeline()
    held = peak = 0
    for number, (time_ns, change, category) in enumerate(changes):
        held += change
        peak = max(peak, held)
        target.add(
            "memory_events",
            {
                "rank": rank,
                "event_id": number,
                "time_ns": time_ns,
                "action": "alloc" if change > 0 else "free_completed",
                "bytes": abs(change),
                "category": category,
            },
        )
    return f"{len(changes)} changes of memory, at most {peak / 1e6:.1f} MB in use, rank {rank}"


def _is_coalesced(whole: Any) -> bool:
    return (
        isinstance(whole, list)
        and len(whole) == 2  # times and sizes
        and all(isinstance(part, list) for part in whole)
        and bool(whole[1])
        and isinstance(whole[1][0], list)
        and len(whole[0]) == len(whole[1])
    )


def _coalesced(whole: Any) -> list[tuple[int | None, int, str]]:
    """Each change of a category between two moments; the first column of the sizes is the zero line of a chart."""
    changes: list[tuple[int | None, int, str]] = []
    before = [0] * (len(CATEGORIES) + 1)
    for time, sizes in zip(*whole, strict=True):
        if (
            not _is_whole(time)
            or not isinstance(sizes, list)
            or len(sizes) != len(before)
            or not all(map(_is_whole, sizes))
        ):
            return []
        for name, was, now in zip(CATEGORIES, before[1:], sizes[1:], strict=True):
            if now != was:
                changes.append((time * 1000 if time >= 0 else None, now - was, name))
        before = sizes
    return changes


def _raw(whole: Any) -> list[tuple[int | None, int, str]]:
    changes: list[tuple[int | None, int, str]] = []
    for row in whole if isinstance(whole, list) else ():
        if not isinstance(row, list) or len(row) != 4 or not all(map(_is_whole, row)):  # the format's
            return []
        time, _, change, category = row
        if change:
            name = CATEGORIES[category] if 0 <= category < len(CATEGORIES) else "unknown"
            changes.append((time if time >= 0 else None, change, name))
    return changes


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**53 * 1000
