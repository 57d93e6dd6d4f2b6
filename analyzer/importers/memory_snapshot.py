"""A snapshot of the CUDA allocator (`torch.cuda.memory._dump_snapshot`) into memory_blocks, memory_events and frames."""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..errors import ImportFileError
from .target import RunTarget

_CATEGORIES = {
    "active_allocated": "allocated",
    "inactive": "free",
    "active_awaiting_free": "awaiting",
    "active_pending_free": "awaiting",
}
_LIBRARY = ("/torch/", "\\torch\\", "<frozen", "??", "none")


class _Frames:
    """Call stacks, each written once."""

    def __init__(self, target: RunTarget) -> None:
        self._target = target
        self._ids: dict[tuple[tuple[str, int, str], ...], int] = {}

    def id_of(self, frames: Any) -> int | None:
        """Number of a stack; null for an empty one."""
        stack = tuple(
            (_text(f.get("filename")), _int(f.get("line")) or 0, _text(f.get("name")))
            for f in (frames if isinstance(frames, Iterable) else ())
            if isinstance(f, Mapping)
        )
        if not stack:
            return None
        known = self._ids.get(stack)
        if known is None:
            known = self._ids[stack] = len(self._ids)
            for depth, (file, line, function) in enumerate(stack):
                row = {"frames_id": known, "depth": depth, "file": file, "line": line, "function": function}
                self._target.add("frames", row)
        return known


def import_snapshot(path: Path, snapshot: Any, target: RunTarget) -> str:
    """Add the blocks and the history of a snapshot that has been read. Returns what was found, in a few words."""
    if not isinstance(snapshot, Mapping) or not isinstance(snapshot.get("segments"), list):
        raise ImportFileError(f"{path}: has no list of segments; was it written by torch.cuda.memory._dump_snapshot?")
    frames = _Frames(target)
    traces = snapshot.get("device_traces")
    events = _events(traces if isinstance(traces, list) else [], frames, target)
    blocks = _blocks(snapshot["segments"], target, "oom" if events["oom"] else "end")
    if events["oom"]:
        words = (
            f"{path.name} tells of {events['oom']} allocations that found no memory; see action oom in memory_events."
        )
        target.event("memory-snapshot", words)
    return f"{blocks} blocks, {sum(events.values())} events of the allocator"


def _blocks(segments: list[Any], target: RunTarget, trigger: str) -> int:
    """Blocks of one device, state and line in one row, as the recorder writes them."""
    rows: dict[tuple[str, str, str | None], dict[str, Any]] = {}
    count = 0
    for segment in segments:
        if not isinstance(segment, Mapping):
            continue
        device = f"cuda:{_int(segment.get('device')) or 0}"
        for block in segment.get("blocks") or ():
            if not isinstance(block, Mapping):
                continue
            size = _int(block.get("size")) or 0
            state = _text(block.get("state"))
            key = (device, _CATEGORIES.get(state, state), _place(block))
            row = rows.setdefault(
                key,
                {"step": 0, "trigger": trigger, "source": "cuda", "device": device, "category": key[1], "place": key[2]}
                | {"blocks": 0, "bytes": 0, "largest_bytes": 0},
            )
            row["blocks"] += 1
            row["bytes"] += size
            row["largest_bytes"] = max(row["largest_bytes"], size)
            count += 1
    for row in sorted(rows.values(), key=lambda r: -r["bytes"]):
        target.add("memory_blocks", row)
    return count


def _events(traces: list[Any], frames: _Frames, target: RunTarget) -> Counter[str]:
    counted: Counter[str] = Counter()
    for device, trace in enumerate(traces):
        for event in trace if isinstance(trace, list) else ():
            if not isinstance(event, Mapping):
                continue
            action = _text(event.get("action"))
            time = _int(event.get("time_us"))
            target.add(
                "memory_events",
                {
                    "event_id": counted.total(),
                    "time_ns": None if time is None else time * 1000,
                    "device": f"cuda:{device}",
                    "action": action,
                    "addr": _int(event.get("addr")),
                    "bytes": _int(event.get("size")),
                    "stream": _int(event.get("stream")),
                    "category": _text(event["category"]) if "category" in event else None,
                    "device_free_bytes": _int(event.get("device_free")),
                    "frames_id": frames.id_of(event.get("frames")),
                },
            )
            counted[action] += 1
    return counted


def _place(block: Mapping[str, Any]) -> str | None:
    """Innermost line outside torch that allocated a block. Old snapshots keep frames in a history."""
    frames = block.get("frames")
    if (
        not frames
        and isinstance(block.get("history"), list)
        and block["history"]
        and isinstance(block["history"][0], Mapping)
    ):
        frames = block["history"][0].get("frames")
    for frame in frames if isinstance(frames, Iterable) else ():
        if isinstance(frame, Mapping) and is_script(_text(frame.get("filename"))):
            return f"{_text(frame.get('filename'))}:{_int(frame.get('line')) or 0} in {_text(frame.get('name'))}"
    return None


def is_script(file: str) -> bool:
    """Whether a file is outside torch, as far as its path tells."""
    return (
        bool(file)
        and not any(mark in file for mark in _LIBRARY)
        and not file.endswith((".cpp", ".cc", ".c", ".h", ".cu"))
    )


def _int(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63 else None


def _text(value: Any) -> str:
    return "" if value is None else str(value)[:1000]
