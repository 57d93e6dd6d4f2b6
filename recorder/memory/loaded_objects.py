"""Have the garbage collector leave alone what libraries have loaded: torch above all, some 200,000 objects that live to the end.

It goes through them again and again, the more often the more a recorder makes, and three times when Python ends, which takes half
a second.
"""

import contextlib
import gc
import os
from pathlib import Path
from types import FrameType

from ..script.frames import is_users

_set_aside = False

_MOST_BYTES = 2**30
"""Memory up to which nothing but libraries has been loaded: the data of a script takes more."""


def are_set_aside() -> bool:
    """Whether it was done in this process; `gc.get_freeze_count()` counts them one by one."""
    return _set_aside


def leave_alone(frame: FrameType | None) -> bool:
    """Set aside what there is, where a script has only imported modules so far. ``frame``: the one from which torch is imported.
    Whether it was done: not where the script may have made what it will let go of, or looks after its collector itself."""
    global _set_aside  # noqa: PLW0603 - a process has one collector
    if not gc.isenabled() or gc.get_freeze_count() or not _only_imports(frame):
        return False
    if any(kind.__module__ == "nanobind" for kind in type.__subclasses__(type)):
        return False  # it complains of everything that is still there when Python ends
    with contextlib.suppress(OSError, ValueError):
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        if pages * os.sysconf("SC_PAGE_SIZE") <= _MOST_BYTES:
            gc.freeze()
            _set_aside = True
            return True
    return False


def _only_imports(frame: FrameType | None) -> bool:
    """Whether no function of the script is running."""
    while frame is not None:
        if frame.f_code.co_name != "<module>" and is_users(frame.f_code.co_filename):
            return False
        frame = frame.f_back
    return True
