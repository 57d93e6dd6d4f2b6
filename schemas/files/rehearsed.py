"""Checkpoints that a rehearsal has saved aside: the listing in their folder says which path of the script's each stands for."""

import json
from collections.abc import Mapping
from pathlib import Path

_LISTING = "saved.json"


def write_listing(folder: Path, saved: Mapping[str, Path]) -> None:
    """List the files of a folder by the paths that the script saved them to."""
    (folder / _LISTING).write_text(json.dumps({path: aside.name for path, aside in saved.items()}), "utf-8")


def read_listing(folder: Path) -> dict[str, Path]:
    """Path of the script's → the file that stands for it; empty where nothing was saved."""
    if not (folder / _LISTING).exists():
        return {}
    return {path: folder / name for path, name in json.loads((folder / _LISTING).read_text("utf-8")).items()}


def not_saved_otherwise(folder: Path) -> dict[str, Path]:
    """The same without the paths where the script has a file of its own."""
    return {path: aside for path, aside in read_listing(folder).items() if not Path(path).exists()}
