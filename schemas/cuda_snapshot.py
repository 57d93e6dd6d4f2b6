"""Snapshots of torch's CUDA caching allocator: reading a pickle that may come from a stranger, and what its blocks say.

The structure is that of ``torch.cuda.memory._snapshot()``: segments with their blocks, and one trace of events for each device.
A pickle can run any code when it is loaded; a snapshot holds nothing but dictionaries, lists, texts and numbers, so everything
else in it is refused. On CPU ``torch.cuda._memory_viz._profile_to_snapshot`` gives the same structure from a profile.
"""

import pickle
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath
from typing import Any, BinaryIO, NoReturn

from .manifest import SchemaError

_STATES = {
    "active_allocated": "allocated",
    "active_awaiting_free": "awaiting",
    "active_pending_free": "awaiting",
    "inactive": "free",
}
_MOST_BYTES = 4 * 2**30
_MOST_ROWS = 48

Snapshot = Mapping[str, Any]
"""Keys segments and device_traces; more where torch writes more."""


class _Plain(pickle.Unpickler):
    """Loads nothing that would import or call anything."""

    def find_class(self, module_name: str, global_name: str, /) -> NoReturn:
        raise pickle.UnpicklingError(f"it asks for {module_name}.{global_name}, which no snapshot needs")

    def persistent_load(self, pid: Any) -> NoReturn:
        raise pickle.UnpicklingError(f"it refers to something outside ({pid!r})")


def read_snapshot(path: Path) -> Snapshot:
    """A snapshot from a file. Raises SchemaError for what cannot be read, is no snapshot, or asks for more than plain data."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise SchemaError(f"{path}: larger than {_MOST_BYTES >> 30} GiB, which no allocator's snapshot is")
        with path.open("rb") as file:
            found = load_plain(file)
    except OSError as e:
        raise SchemaError(f"{path}: cannot be read ({e.strerror})") from e
    except (pickle.UnpicklingError, EOFError, ValueError, IndexError, KeyError, TypeError, AttributeError) as e:
        raise SchemaError(f"{path}: is no memory snapshot ({e})") from e
    if not isinstance(found, dict) or not isinstance(found.get("segments"), list):
        raise SchemaError(f"{path}: is no memory snapshot (it has no list of segments)")
    return found


def load_plain(file: BinaryIO) -> Any:
    """A pickle of dictionaries, lists, texts and numbers. Raises pickle.UnpicklingError for anything else."""
    return _Plain(file).load()


def block_groups(snapshot: Snapshot) -> list[dict[str, Any]]:
    """Rows of `memory_blocks` without step and trigger: blocks of one state that one line has allocated, largest first."""
    groups: dict[tuple[int, str, str | None], dict[str, Any]] = {}
    for segment in snapshot.get("segments") or ():
        device = segment.get("device", 0)
        for block in segment.get("blocks") or ():
            category = _STATES.get(block.get("state", ""), "allocated")
            place = user_place(_frames(block)) if category != "free" else None
            size = int(block.get("size", 0))
            row = groups.setdefault(
                (device, category, place),
                {
                    "source": "cuda",
                    "category": category,
                    "device": f"cuda:{device}",
                    "blocks": 0,
                    "bytes": 0,
                    "largest_bytes": 0,
                    "place": place,
                },
            )
            row["blocks"] += 1
            row["bytes"] += size
            row["largest_bytes"] = max(row["largest_bytes"], size)
    return sorted(groups.values(), key=lambda row: row["bytes"], reverse=True)[:_MOST_ROWS]


def _frames(block: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    if frames := block.get("frames"):
        return frames
    history = block.get("history") or ()  # written by torch before 2.1
    return (history[0].get("frames") or ()) if history else ()


def user_place(frames: Iterable[Mapping[str, Any]]) -> str | None:
    """``file:line in function`` of the innermost Python frame outside torch, None if there is none. Frames come innermost
    first."""
    for frame in frames:
        file = str(frame.get("filename", ""))
        if file.endswith(".py") and "torch" not in PurePath(file.replace("\\", "/")).parts:
            return f"{file}:{frame.get('line')} in {frame.get('name')}"
    return None
