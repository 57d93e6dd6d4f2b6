"""What the blocks of a snapshot of torch's CUDA caching allocator say: of the recorder's own and of imported ones.

The structure is that of ``torch.cuda.memory._snapshot()``: segments with their blocks, and a trace of events for each device.
On CPU ``torch.cuda._memory_viz._profile_to_snapshot`` gives the same from a profile. Nothing is taken for granted: a snapshot
may come from a stranger.
"""

from collections.abc import Iterable, Mapping
from typing import Any

_CATEGORIES = {
    "active_allocated": "allocated",
    "inactive": "free",
    "active_awaiting_free": "awaiting",
    "active_pending_free": "awaiting",
}
_LIBRARY = ("/torch/", "\\torch\\", "<frozen", "??", "none")
_NATIVE = (".cpp", ".cc", ".c", ".h", ".cu")


def block_groups(segments: Any) -> list[dict[str, Any]]:
    """Rows of `memory_blocks` without step and trigger, largest first: blocks of one device and state that one line of the
    script has allocated are one row."""
    rows: dict[tuple[str, str, str | None], dict[str, Any]] = {}
    for segment in segments if isinstance(segments, Iterable) else ():
        if not isinstance(segment, Mapping):
            continue
        device = f"cuda:{whole(segment.get('device')) or 0}"
        for block in segment.get("blocks") or ():
            if not isinstance(block, Mapping):
                continue
            size = whole(block.get("size")) or 0
            state = words(block.get("state"))
            key = (device, _CATEGORIES.get(state, state), _place(block))
            row = rows.setdefault(
                key,
                {"source": "cuda", "device": device, "category": key[1], "place": key[2]}
                | {"blocks": 0, "bytes": 0, "largest_bytes": 0},
            )
            row["blocks"] += 1
            row["bytes"] += size
            row["largest_bytes"] = max(row["largest_bytes"], size)
    return sorted(rows.values(), key=lambda row: row["bytes"], reverse=True)


def is_script(file: str) -> bool:
    """Whether a file is outside torch, as far as its path tells."""
    return bool(file) and not any(mark in file for mark in _LIBRARY) and not file.endswith(_NATIVE)


def whole(value: Any) -> int | None:
    """A number that fits into a column; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63 else None


def words(value: Any) -> str:
    """A text of bearable length."""
    return "" if value is None else str(value)[:1000]


def _place(block: Mapping[str, Any]) -> str | None:
    """Innermost line outside torch that allocated a block. Old snapshots keep frames in a history."""
    frames = block.get("frames")
    history = block.get("history")
    if not frames and isinstance(history, list) and history and isinstance(history[0], Mapping):
        frames = history[0].get("frames")
    for frame in frames if isinstance(frames, Iterable) else ():
        if isinstance(frame, Mapping) and is_script(words(frame.get("filename"))):
            return f"{words(frame.get('filename'))}:{whole(frame.get('line')) or 0} in {words(frame.get('name'))}"
    return None
