"""The command's own libraries come before those that PYTHONPATH names.

A user's PYTHONPATH is for the script, and may hold an old release of what the command needs. The script's process gets it as it
is. Where firstfault itself lies in one of these folders, its libraries do too, and nothing is moved.
"""

import os
import sys
from pathlib import Path


def put_last(paths: list[str], named: str, own: Path) -> list[str]:
    """``paths`` with the entries of ``named``, a PYTHONPATH, at the end; as they are where ``own`` lies in one of these."""
    asked = {Path(entry).absolute() for entry in named.split(os.pathsep) if entry}
    if any(own.is_relative_to(entry) for entry in asked):
        return paths
    return sorted(paths, key=lambda p: Path(p).absolute() in asked)


def come_first() -> None:
    """Have this process, which is the command's, look for libraries where firstfault's own are."""
    sys.path[:] = put_last(sys.path, os.environ.get("PYTHONPATH", ""), Path(__file__).parent)
