"""Checkpoints that a rehearsal has saved aside: the listing in their folder says which path of the script's each stands for.

Beside them lies what the script's own objects held: ``first``, where the training began, ``then``, where it went on after the
checkpoint, and ``now``, where a start from the checkpoint began.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

_LISTING = "saved.json"
_ASKED = "asked.json"

Moment = Literal["first", "then", "now"]


class StateValue(msgspec.Struct, kw_only=True):
    """A number or a tensor: equal ones have equal digests."""

    digest: str
    mean: float | None
    """None: it is not finite, as JSON has no such numbers."""
    size: int = 1


def write_state(folder: Path, moment: Moment, state: Mapping[str, StateValue]) -> None:
    """Write what the script held at a moment; the first such moment counts."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"state-{moment}.json"
    if not path.exists():
        path.write_bytes(msgspec.json.encode(state))


def read_state(folder: Path, moment: Moment) -> dict[str, StateValue]:
    """What was written; empty where nothing was."""
    path = folder / f"state-{moment}.json"
    return msgspec.json.decode(path.read_bytes(), type=dict[str, StateValue]) if path.exists() else {}


def write_listing(folder: Path, saved: Mapping[str, Path]) -> None:
    """List the files of a folder by the paths that the script saved them to."""
    (folder / _LISTING).write_text(json.dumps({path: aside.name for path, aside in saved.items()}), "utf-8")


def read_listing(folder: Path) -> dict[str, Path]:
    """Path of the script's → the file that stands for it; empty where nothing was saved."""
    if not (folder / _LISTING).exists():
        return {}
    return {path: folder / name for path, name in json.loads((folder / _LISTING).read_text("utf-8")).items()}


def write_asked(folder: Path, paths: Sequence[str]) -> None:
    """List the paths that the script asked for in vain before its training began."""
    (folder / _ASKED).write_text(json.dumps(list(paths)), "utf-8")


def read_asked(folder: Path) -> set[str]:
    """What was listed; empty where nothing was."""
    return set(json.loads((folder / _ASKED).read_text("utf-8"))) if (folder / _ASKED).exists() else set()


def not_saved_otherwise(folder: Path) -> dict[str, Path]:
    """The same without the paths where the script has a file of its own."""
    return {path: aside for path, aside in read_listing(folder).items() if not Path(path).exists()}
