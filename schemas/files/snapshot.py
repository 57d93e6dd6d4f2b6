"""RUN/snapshots/step=000412.safetensors: the state of a training after a step, in the format of the safetensors library.

The tensors are read by whoever has torch; what is no tensor stands in the header as JSON, and is read without it. Nothing in
either is pickled.
"""

import json
import re
from pathlib import Path
from typing import Any

import msgspec

SNAPSHOTS = "snapshots"
META_KEY = "firstfault"
"""Entry of the header's ``__metadata__`` that holds a SnapshotMeta as JSON."""

ENV_REENTRY = "FIRSTFAULT_REENTRY"
"""Environment variable with the file of a snapshot: the process goes on from there once its loop is known."""

REENTRY_STEPS = 2
"""The script's own steps before it: after the first one an optimizer that steps every other time may not be known."""

MOST_HEADER = 64 * 1024 * 1024
_NAME = re.compile(r"step=(\d+)\.safetensors$")

Plain = dict[str, Any]
"""Values that JSON has: what an optimizer's settings and a scheduler's counters are made of."""


class LoaderPlace(msgspec.Struct, kw_only=True):
    """Where the pass over a DataLoader stood; the random state when it began is tensor ``random/loader``."""

    drawn: int
    """Batches that the script has had of it."""


class SnapshotMeta(msgspec.Struct, kw_only=True):
    """What of a snapshot is no tensor."""

    step: int
    """The step that has just ended."""
    time_ns: int
    seconds: float
    """Since the first step of this process."""
    optimizers: list[list[Plain]] = []
    """Settings of each group of each optimizer."""
    optimizer_values: list[dict[str, Plain]] = []
    """``group.index`` of a parameter → what its optimizer knows of it in plain numbers."""
    schedulers: list[list[Plain]] = []
    """Counters of each scheduler, and of those inside it."""
    scalers: list[Plain] = []
    loader: LoaderPlace | None = None
    python_random: list[Any] | None = None
    numpy_random: list[Any] | None = None


def snapshot_path(run: Path, step: int) -> Path:
    """The file of one snapshot."""
    return run / SNAPSHOTS / f"step={step:08d}.safetensors"


def snapshots(run: Path) -> list[tuple[int, Path]]:
    """Steps and files of a run's snapshots, oldest first."""
    found = [(int(m[1]), p) for p in (run / SNAPSHOTS).glob("step=*.safetensors") if (m := _NAME.search(p.name))]
    return sorted(found)


def read_header(path: Path) -> tuple[dict[str, Any], int]:
    """The header of a file in this format, and where the data begin. Raises ValueError for a file that is none."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        if not 2 <= size <= MOST_HEADER:
            raise ValueError(f"{path}: is no safetensors file")
        header = json.loads(file.read(size))
    if not isinstance(header, dict):
        raise ValueError(f"{path}: is no safetensors file")  # noqa: TRY004 — all of these are one kind of error
    return header, 8 + size


def read_meta(path: Path) -> SnapshotMeta | None:
    """What of a snapshot is no tensor; None for a file that is none of ours or cannot be read."""
    try:
        header, _ = read_header(path)
        return msgspec.json.decode(header["__metadata__"][META_KEY], type=SnapshotMeta)
    except (OSError, ValueError, KeyError, TypeError, msgspec.MsgspecError):
        return None
