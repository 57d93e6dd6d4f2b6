"""A snapshot of the CUDA allocator (`torch.cuda.memory._dump_snapshot`) into memory_blocks, memory_events and frames."""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ...schemas.cuda_snapshot import block_groups, whole, words
from ..errors import ImportFileError
from .target import RunTarget


class _Frames:
    """Call stacks, each written once."""

    def __init__(self, target: RunTarget) -> None:
        self._target = target
        self._ids: dict[tuple[tuple[str, int, str], ...], int] = {}

    def id_of(self, frames: Any) -> int | None:
        """Number of a stack; null for an empty one."""
        stack = tuple(
            (words(f.get("filename")), whole(f.get("line")) or 0, words(f.get("name")))
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
        told = (
            f"{path.name} tells of {events['oom']} allocations that found no memory; see action oom in memory_events."
        )
        target.event("memory-snapshot", told)
    return f"{blocks} blocks, {sum(events.values())} events of the allocator"


def _blocks(segments: list[Any], target: RunTarget, trigger: str) -> int:
    """Blocks of one device, state and line in one row, as the recorder writes them."""
    rows = block_groups(segments)
    for row in rows:
        target.add("memory_blocks", {"step": 0, "trigger": trigger, **row})
    return sum(row["blocks"] for row in rows)


def _events(traces: list[Any], frames: _Frames, target: RunTarget) -> Counter[str]:
    counted: Counter[str] = Counter()
    for device, trace in enumerate(traces):
        for event in trace if isinstance(trace, list) else ():
            if not isinstance(event, Mapping):
                continue
            action = words(event.get("action"))
            time = whole(event.get("time_us"))
            target.add(
                "memory_events",
                {
                    "event_id": counted.total(),
                    "time_ns": None if time is None else time * 1000,
                    "device": f"cuda:{device}",
                    "action": action,
                    "addr": whole(event.get("addr")),
                    "bytes": whole(event.get("size")),
                    "stream": whole(event.get("stream")),
                    "category": words(event["category"]) if "category" in event else None,
                    "device_free_bytes": whole(event.get("device_free")),
                    "frames_id": frames.id_of(event.get("frames")),
                },
            )
            counted[action] += 1
    return counted
