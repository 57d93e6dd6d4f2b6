"""Floor 2: what runs inside the training process, and the supervisor beside it.

``from firstfault.recorder import Recorder`` is all that a script needs. Nothing is imported before it is asked for: the
supervisor lives without torch, and a recorded process must not import it before the script does.
"""

from typing import TYPE_CHECKING, Any

from .base.errors import CompactionError, RecorderError

if TYPE_CHECKING:
    from .api import Recorder

__all__ = ["CompactionError", "Recorder", "RecorderError"]


def __getattr__(name: str) -> Any:
    if name == "Recorder":
        from .api import Recorder  # noqa: PLC0415

        return Recorder
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
