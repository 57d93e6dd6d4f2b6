"""What a script calls its loaders: which of them it goes through as its validation set.

The source says it where a pass begins, or where the function that makes the pass is called. Of loaders that a dictionary holds
the key says it.
"""

import gc
import re
import sys
from types import FrameType
from typing import Any

from torch.utils.data import DataLoader

from ..loop.dataloaders import LoaderWatch
from ..script.frames import Place, outside, script_frame
from ..session.patches import Patches
from ..session.session import Session
from ..session.watch import Watch

_VALIDATION = re.compile(r"(?<![a-z])(?:val|valid|validation|dev)(?![a-z])", re.IGNORECASE)
_FUNCTION = re.compile(r"[\w.]+\(")
"""What is called may be made for a validation and be given something else."""

_MOST_FRAMES = 4
_MOST_LOADERS = 16


class LoaderNames(Watch):
    """Writes an event for a loader that the script calls its validation set, at its first pass."""

    name = "loader-names"
    writes = ("events:called-validation",)
    uses = ("loader",)

    def __init__(self, session: Session, loaders: LoaderWatch) -> None:
        super().__init__(session)
        self._loaders = loaders
        self._looked: set[int] = set()

    def install(self, patches: Patches) -> None:
        """Be told of each pass over a loader."""
        patches.around(DataLoader, "__iter__", after=self.guarded(self._begins))

    def _begins(self, _note: Any, iterator: Any, loader: Any) -> None:
        place = self._loaders.place_of(iterator)
        if place is None or place[0] in self._looked or len(self._looked) >= _MOST_LOADERS:
            return
        self._looked.add(place[0])
        key = _key_of(loader)
        frame: FrameType | None = outside(sys._getframe(1))
        for _ in range(_MOST_FRAMES):
            frame = script_frame(frame)
            if frame is None:
                return
            where, text = Place(frame.f_code, frame.f_lasti).words()
            if not (text and _VALIDATION.search(_FUNCTION.sub("(", text))):
                text = key or text
            if text and "train" in text.lower():
                return
            if text and _VALIDATION.search(_FUNCTION.sub("(", text)):
                detail = {"loader_id": place[0], "place": where, "text": text}
                self.session.rows.event("called-validation", f"loader {place[0]} is {text}", detail=detail)
                return
            frame = frame.f_back


def _key_of(loader: Any) -> str | None:
    """The key under which a dictionary holds a loader, if one does and the key tells. Variables of functions are not read:
    Python would make a copy of them, which keeps alive what they hold."""
    for held in gc.get_referrers(loader):
        if type(held) is dict and len(held) <= _MOST_LOADERS and "__name__" not in held:
            for key, value in list(held.items()):
                if value is loader and isinstance(key, str) and ("train" in key.lower() or _VALIDATION.search(key)):
                    return f"[{key!r}]"
    return None
