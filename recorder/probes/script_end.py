"""The rest of a script, rehearsed: each pass of its training has a few batches, so that what comes after its last epoch runs.

Nothing stays of it: checkpoints go aside, and files that the script makes meanwhile are removed at its end.
"""

import atexit
import os
import stat
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from ..session.patches import Patches
from .epoch_end import EpochShortened

_MOST = 64
"""Batches of a later pass in which no optimizer steps, at most: some belong to an accumulation."""


class PassesShortened(EpochShortened):
    """The pass that feeds the training ends at the step, and every later one behind its first optimizer step and one batch more,
    which is as small as the script's own last one. ``own``: a folder of ours, whose files stay."""

    def __init__(self, now: Callable[[], int], step: int, values: dict[str, Any]) -> None:
        super().__init__(now, step, values)
        self._given: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        """Later pass → batches that it has had."""
        self._stepped: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        """Later pass → optimizer steps before its first batch."""
        self._over: weakref.WeakSet[Any] = weakref.WeakSet()
        """Later passes that have had their last batch."""
        self._made: dict[str, None] = {}
        """Files and folders that were not there before, in the order in which they were made."""
        self._ours = os.path.join(os.path.abspath(values["own"]), "") if "own" in values else None  # noqa: PTH100, PTH118

    def install(self, patches: Patches) -> None:
        """The same, and an end that removes what was made."""
        super().install(patches)
        process = os.getpid()
        atexit.register(lambda: self.remove_made() if os.getpid() == process else None)

    def _again(self, iterator: Any) -> bool:
        return self.ended and torch.is_grad_enabled() and iterator in self._over

    def _later(self, iterator: Any, following: Callable[[Any], Any]) -> Any:
        if not torch.is_grad_enabled():
            return following(iterator)
        given = self._given[iterator] = self._given.get(iterator, 0) + 1
        if self._stepped.setdefault(iterator, self._steps) == self._steps and given < _MOST:
            return following(iterator)
        self._over.add(iterator)
        return self.shorter.next_of(iterator, following)

    def _asked(self, event: str, args: tuple[Any, ...]) -> None:
        super()._asked(event, args)
        if not self.ended:
            return
        opened = event == "open" and isinstance(args[2], int) and args[2] & os.O_CREAT
        if opened or (event == "os.mkdir" and args[2] < 0):  # else the path is relative to a folder that is open
            self._makes(args[0])
        elif event == "os.rename" and os.path.abspath(args[0]) in self._made:  # noqa: PTH100
            self._makes(args[1])

    def _makes(self, path: Any) -> None:
        if not isinstance(path, str | os.PathLike):
            return
        place = os.path.abspath(path)  # noqa: PTH100
        if (self._ours is None or not place.startswith(self._ours)) and not os.path.lexists(place):
            self._made[place] = None

    def remove_made(self) -> None:
        """Remove the files that were made since the first pass was ended, and the folders that are empty then."""
        self.ended = False
        for place in reversed(list(self._made)):
            path = Path(place)
            try:
                if stat.S_ISDIR(path.lstat().st_mode):
                    path.rmdir()
                else:
                    path.unlink()
            except OSError:
                continue  # it is gone, or holds something of another's
