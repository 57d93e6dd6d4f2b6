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
    rows: dict[tuple[str, str, str | None, str | None], dict[str, Any]] = {}
    for segment in segments if isinstance(segments, Iterable) else ():
        if not isinstance(segment, Mapping):
            continue
        device = f"cuda:{whole(segment.get('device')) or 0}"
        for block in segment.get("blocks") or ():
            if not isinstance(block, Mapping):
                continue
            size = whole(block.get("size")) or 0
            frames = frames_of(block)
            key = (device, category_of(block), place_of(frames), purpose_of(frames))
            row = rows.setdefault(
                key,
                {"source": "cuda", "device": device, "category": key[1], "place": key[2], "purpose": key[3]}
                | {"blocks": 0, "bytes": 0, "largest_bytes": 0},
            )
            row["blocks"] += 1
            row["bytes"] += size
            row["largest_bytes"] = max(row["largest_bytes"], size)
    return sorted(rows.values(), key=lambda row: row["bytes"], reverse=True)


def category_of(block: Mapping[str, Any]) -> str:
    """Whether a block is allocated, free or awaiting; as the snapshot has it, where that is none of these."""
    state = words(block.get("state"))
    return _CATEGORIES.get(state, state)


def is_script(file: str) -> bool:
    """Whether a file is outside torch, as far as its path tells."""
    return bool(file) and not any(mark in file for mark in _LIBRARY) and not file.endswith(_NATIVE)


def whole(value: Any) -> int | None:
    """A number that fits into a column; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63 else None


def words(value: Any) -> str:
    """A text of bearable length."""
    return "" if value is None else str(value)[:1000]


def frames_of(block: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The stack that allocated a block, innermost first. Old snapshots keep frames in a history."""
    frames = block.get("frames")
    history = block.get("history")
    if not frames and isinstance(history, list) and history and isinstance(history[0], Mapping):
        frames = history[0].get("frames")
    return [f for f in frames if isinstance(f, Mapping)] if isinstance(frames, Iterable) else []


def place_of(frames: Iterable[Mapping[str, Any]]) -> str | None:
    """Innermost line outside torch of a stack; None where there is none. Frames of C++ have no line, or none that is known."""
    for frame in frames:
        if whole(frame.get("line")) and is_script(words(frame.get("filename"))):
            return f"{words(frame.get('filename'))}:{whole(frame.get('line')) or 0} in {words(frame.get('name'))}"
    return None


def purpose_of(frames: Iterable[Mapping[str, Any]]) -> str | None:
    """What a stack says that its memory is for, by the innermost part of torch that is known for one thing; None without a
    stack. Saved results of a checkpointed forward run inside a backward: the forward, which is further in, counts."""
    known = False
    for frame in frames:
        known = True
        file, name = words(frame.get("filename")).replace("\\", "/"), words(frame.get("name"))
        for purpose, files, names in _PURPOSES:
            if any(mark in file for mark in files) or any(mark in name for mark in names):
                return purpose
    return "other" if known else None


_PURPOSES: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("communication", ("/distributed/distributed_c10d.py", "ProcessGroupNCCL"), ("ncclComm",)),
    (
        "optimizer_state",
        ("/torch/optim/", "/bitsandbytes/optim/", "/deepspeed/ops/adam"),
        ("optimizer_step", "_init_group"),
    ),
    (
        "gradient",
        ("/torch/autograd/graph.py", "autograd/engine.cpp"),
        ("torch::autograd::Engine", "_engine_run_backward"),
    ),
    ("parameter", ("/torch/nn/init.py", "/torch/nn/parameter.py"), ("_apply", "reset_parameters", "load_state_dict")),
    ("activation", ("/torch/nn/functional.py", "/torch/nn/modules/"), ("forward", "_call_impl")),
)
"""Purpose, and what its files or functions are called, those that are asked first being the surest."""
