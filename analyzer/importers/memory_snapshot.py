"""A snapshot of the CUDA allocator (`torch.cuda.memory._dump_snapshot`) into memory_blocks, memory_events and frames."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ...schemas.files.cuda_snapshot import block_groups, category_of, place_of, whole, words
from ..errors import ImportFileError
from .target import RunTarget


class _Frames:
    """Call stacks, each written once."""

    def __init__(self, target: RunTarget, rank: int) -> None:
        self._target, self._rank = target, rank
        self._places: dict[int, str | None] = {}
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
                row = {
                    "rank": self._rank,
                    "frames_id": known,
                    "depth": depth,
                    "file": file,
                    "line": line,
                    "function": function,
                }
                self._target.add("frames", row)
        return known

    def place_of(self, frames: Any) -> str | None:
        """The innermost line outside torch; looked for once a list, since one stack stands in many events."""
        if not isinstance(frames, list):
            return None
        if id(frames) not in self._places:
            self._places[id(frames)] = place_of(f for f in frames if isinstance(f, Mapping))
        return self._places[id(frames)]


def import_snapshot(path: Path, snapshot: Any, target: RunTarget) -> str:
    """Add the segments, blocks and history of a snapshot that has been read. Two files are two ranks. Returns what was found."""
    if not isinstance(snapshot, Mapping) or not isinstance(snapshot.get("segments"), list):
        raise ImportFileError(f"{path}: has no list of segments; was it written by torch.cuda.memory._dump_snapshot?")
    rank = _rank(path, target)
    traces = snapshot.get("device_traces")
    events = _events(traces if isinstance(traces, list) else [], _Frames(target, rank), target, rank)
    segments = [s for s in snapshot["segments"] if isinstance(s, Mapping)]
    blocks = _blocks(segments, target, rank, "oom" if events["oom"] else "end")
    held = sum(_segment(segment, target, rank) for segment in segments)
    if not segments and not events:
        raise ImportFileError(
            f"{path}: holds neither segments nor a history; was the device in use when it was dumped?"
        )
    target.snapshot_ranks.add(rank)
    if events["oom"]:
        told = (
            f"{path.name} tells of {events['oom']} allocations that found no memory; see action oom in memory_events."
        )
        target.event("memory-snapshot", told, rank=rank)
    return (
        f"{held / 1e9:.2f} GB in {len(segments)} segments, {blocks} blocks, {sum(events.values())} events, rank {rank}"
    )


def _rank(path: Path, target: RunTarget) -> int:
    """The rank that the name tells, else the first of which there is no snapshot yet."""
    found = re.search(r"rank[-_=]?(\d{1,6})(?!\d)", path.name, re.IGNORECASE)
    if found and int(found[1]) not in target.snapshot_ranks:
        return int(found[1])
    return next(rank for rank in range(len(target.snapshot_ranks) + 1) if rank not in target.snapshot_ranks)


def _segment(segment: Mapping[str, Any], target: RunTarget, rank: int) -> int:
    sizes: Counter[str] = Counter()
    requested = largest = count = 0
    for block in segment.get("blocks") or ():
        if not isinstance(block, Mapping):
            continue
        size, kind = whole(block.get("size")) or 0, category_of(block)
        sizes[kind] += size
        count += 1
        if kind == "allocated":
            requested += whole(block.get("requested_size")) or size
        elif kind == "free":
            largest = max(largest, size)
    total = whole(segment.get("total_size")) or sizes.total()
    target.add(
        "memory_segments",
        {
            "rank": rank,
            "device": f"cuda:{whole(segment.get('device')) or 0}",
            "address": whole(segment.get("address")),
            "bytes": total,
            "allocated_bytes": sizes["allocated"],
            "requested_bytes": requested,
            "awaiting_bytes": sizes["awaiting"],
            "free_bytes": sizes["free"],
            "largest_free_bytes": largest,
            "blocks": count,
            "stream": whole(segment.get("stream")),
            "kind": "expandable" if segment.get("is_expandable") else words(segment.get("segment_type")),
        },
    )
    return total


def _blocks(segments: list[Mapping[str, Any]], target: RunTarget, rank: int, trigger: str) -> int:
    """Blocks of one device, state, purpose and line in one row, as the recorder writes them."""
    rows = block_groups(segments)
    for row in rows:
        target.add("memory_blocks", {"rank": rank, "step": 0, "trigger": trigger, **row})
    return sum(row["blocks"] for row in rows)


def _events(traces: list[Any], frames: _Frames, target: RunTarget, rank: int) -> Counter[str]:
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
                    "rank": rank,
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
                    "place": frames.place_of(event.get("frames")),
                },
            )
            counted[action] += 1
    return counted
