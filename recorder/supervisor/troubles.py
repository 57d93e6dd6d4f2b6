"""What the parent says on stderr of its own troubles; a script's exit status comes through whatever happens to them."""

import contextlib
import os
from collections.abc import Callable
from typing import TypeVar

from ..base.errors import CompactionError

T = TypeVar("T")


def warn(slug: str, sentence: str) -> None:
    """One line on stderr that a search for its slug explains."""
    say(f"[{slug}] {sentence}")


def say(sentence: str) -> None:
    """One line on stderr, which may be gone with its terminal: then nobody is left to hear it."""
    with contextlib.suppress(OSError):
        os.write(2, f"firstfault: {sentence}\n".encode("utf-8", "backslashreplace"))


def guarded(slug: str, action: Callable[[], T], said: set[str] | None = None) -> T | None:
    """Do ``action`` and return what it does; what it raises becomes one warning (one for each slug where ``said`` remembers
    them) and None, because the script's exit status must come through whatever happens here."""
    try:
        return action()
    except Exception as e:  # noqa: BLE001 - see above
        if said is None or slug not in said:
            warn(slug, str(e) if isinstance(e, CompactionError) else f"{type(e).__name__}: {e}")
        if said is not None:
            said.add(slug)
        return None
