"""What the script's own code lists of folders, by ``os``, ``glob`` and ``pathlib``: names in the order of the file system."""

import fnmatch
import glob
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..session.patches import Patches

_MOST_NAMES = 200_000

_list = os.listdir


def around_listings(patches: Patches, told: Callable[[str, Any], None]) -> None:
    """Have ``told`` called after each listing with its kind and with what ``names_listed`` wants. It is guarded already."""
    patches.around(os, "listdir", after=lambda _note, names, *_, **__: told("listdir", names))
    patches.around(glob, "glob", after=lambda _note, names, *_, **__: told("glob", names))
    patches.around(os, "scandir", after=lambda _note, _found, path=".", **_: told("scandir", path))
    patches.around(Path, "iterdir", after=lambda _note, _found, folder: told("path.iterdir", folder))
    patches.around(
        Path, "glob", after=lambda _note, _found, folder, pattern="", **__: told("path.glob", (folder, pattern))
    )


def names_listed(kind: str, found: Any) -> list[str]:
    """Names in the order in which the call gives them. Where it gives them one by one, the folder's own order."""
    match kind:
        case "listdir" | "glob":
            names: Sequence[Any] = found
        case "path.glob":
            folder, pattern = found
            if not isinstance(pattern, str) or "/" in pattern or "**" in pattern:
                return []
            names = fnmatch.filter(_list(folder), pattern)
        case _:
            names = _list(found)
    return [name.rpartition(os.sep)[2] for name in names if isinstance(name, str)] if len(names) <= _MOST_NAMES else []
