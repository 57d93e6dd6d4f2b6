"""The end of an epoch, rehearsed: a pass over the training data ends early, so that what comes after it runs.

The next pass ends early too, so that what comes again at each end is seen twice.

The last batch of the first pass is as small as the script's own last batch will be: one sample that is left over breaks batch
norm and `squeeze()`.

What is saved meanwhile goes to a folder of ours and is read from there again. A file that was there before is not written over,
moved or removed: the script breaks off instead, and its user learns which file it was.
"""

import functools
import os
import stat
import sys
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.optim.optimizer as optim
from torch.nn.modules import module as nn_module
from torch.utils.data import dataloader

from ...schemas.files.rehearsed import write_state
from ..session.patches import Patches
from .checkpoints_aside import CheckpointsAside
from .last_batch import LastBatch
from .optimizer_interventions import Intervention
from .script_state import script_state

_WRITES = os.O_WRONLY | os.O_RDWR
_BETWEEN = 4
"""Batches of the pass that ends second."""
_MOST_BETWEEN = 64
"""Batches more that it may have until an optimizer steps: some belong to an accumulation."""
_QUICK_S = 3.0
"""Seconds that what follows a pass may take, for a second one to be ended as well."""
_SUFFIXES = (".pt", ".pth", ".ckpt", ".tar", ".bin", ".safetensors", ".pkl", ".model", ".chk")
"""Ends of names of checkpoints."""
_CHANGES = {"open": 1, "os.truncate": 1, "os.remove": 1, "os.rename": 2}
"""Audit events of Python that change files, and how many paths they name first."""


class EpochShortened(Intervention):
    """The DataLoader that feeds the training has one small batch from the step on and no more, and a few more in its next pass;
    then its passes are whole. Kept for a later start is what was saved at the first end."""

    def __init__(self, now: Callable[[], int], step: int, values: dict[str, Any]) -> None:
        super().__init__(now, step, values)
        self.ended = False
        self.shorter = LastBatch()
        self.aside = CheckpointsAside(Path(values["keep"]) if "keep" in values else None, values.get("hidden", ()))
        self.began = time.time()
        self._looked: weakref.WeakSet[Any] = weakref.WeakSet()
        """Passes at whose beginning the script's own state was looked at."""
        self._left: int | None = None
        """Batches until the second end; None: there is none to come."""
        self._second: weakref.WeakSet[Any] = weakref.WeakSet()
        """Passes after the first end that have had a batch: one without is not to end."""
        self._begun = self._told = False
        """Whether the script's own state was looked at where its training begins, and where it goes on after its first save."""
        self._data: Any = None
        """Data set whose pass was ended."""
        self._at = 0.0
        """When it was."""
        self._steps = self._before = 0
        """Optimizer steps, and those before the second pass."""
        self._waited = 0
        """Batches beyond those that it was to have, because no optimizer had stepped in it."""

    def install(self, patches: Patches) -> None:
        """Wrap the loaders' iterators, and what writes and reads files."""
        fed: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()
        """Iterator that feeds the training → whether its last batch will be smaller than this one."""

        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def following(iterator: Any) -> Any:
                self._look(iterator)
                trains = torch.is_grad_enabled() and not self.ended
                ends = trains and self.active and iterator in fed
                if ends and not fed[iterator]:
                    self._end(iterator._dataset)
                    raise StopIteration
                if self._again(iterator):
                    raise StopIteration
                if not trains:
                    return self._later(iterator, original)
                fed[iterator] = not ends and self.shorter.can_shorten(iterator)
                return self.shorter.next_of(iterator, original) if ends else self._fed(iterator, original)

            return following

        self.shorter.install(patches)
        patches.wrap(dataloader._BaseDataLoaderIter, "__next__", wrap)
        if "kept" in self.values:
            self.aside.use(Path(self.values["kept"]))
        self.aside.install(patches)
        patches.handles([optim.register_optimizer_step_post_hook(self._has_stepped)])
        patches.handles([nn_module.register_module_forward_pre_hook(self._forward_begins)])
        sys.addaudithook(self._asked)  # it stays as long as the process
        patches.later(lambda: setattr(self, "ended", False))

    def _has_stepped(self, *_: Any) -> None:
        self.aside.training_begins()
        self._steps += 1

    def _look(self, iterator: Any) -> None:
        """Keep what the script holds where its training begins, and where it goes on after the first end."""
        folder = self.values.get("kept", self.values.get("keep") if self._goes_on else None)
        begins = torch.is_grad_enabled() and iterator not in self._looked
        if begins and folder is not None and (not self.ended or iterator._dataset is self._data):
            self._looked.add(iterator)
            moment = "now" if "kept" in self.values else "then" if self.ended else "first"
            if moment == "then" and not self.aside.saved:
                return  # it saves later
            write_state(Path(folder), moment, script_state())

    def _forward_begins(self, *_: Any) -> None:
        """The same where no loader's pass says when: at the first forward of a training, and at the first after a save."""
        if self._told or not torch.is_grad_enabled() or (self.ended and self._left is not None):
            return
        if "kept" in self.values:
            self._told = True
            write_state(Path(self.values["kept"]), "now", script_state())
        elif "keep" in self.values and not self._begun:
            self._begun = True
            if self._goes_on:
                write_state(Path(self.values["keep"]), "first", script_state())
        elif "keep" in self.values and self.aside.saved:
            self._told = True
            if self._goes_on:
                write_state(Path(self.values["keep"]), "then", script_state())
            self.aside.keep_no_more()

    @property
    def _goes_on(self) -> bool:
        """Whether another start is to go on from what is kept: its user says so, or the script has looked for a checkpoint."""
        looks = bool(self.values.get("looks", True)) or bool(self.aside.listed)
        return looks or any(path.endswith(_SUFFIXES) for path in self.aside.asked)

    def _end(self, data: Any) -> None:
        self.ended = True
        self._left, self._data, self._at = _BETWEEN, data, time.monotonic()

    def _again(self, iterator: Any) -> bool:
        """Whether the second pass ends here."""
        if self._left is None or not torch.is_grad_enabled() or iterator._dataset is not self._data:
            return False
        if self._left == _BETWEEN and time.monotonic() - self._at > _QUICK_S:
            self._left = None
            return False
        if iterator not in self._second:
            self._second.add(iterator)
            self._before = self._steps
        elif not self._left and (not self._steps or self._steps > self._before or self._waited == _MOST_BETWEEN):
            self._left = None
            if self.aside.saved:
                self.aside.keep_no_more()
            return True
        self._waited += not self._left
        self._left = max(self._left - 1, 0)
        return False

    def _fed(self, iterator: Any, following: Callable[[Any], Any]) -> Any:
        """The next batch of the training's first pass."""
        return following(iterator)

    def _later(self, iterator: Any, following: Callable[[Any], Any]) -> Any:
        """The next batch of a pass that came after the first end, or of an evaluation."""
        return following(iterator)

    def _asked(self, event: str, args: tuple[Any, ...]) -> None:
        """Refuse to change a file that was there before the script began, and to move a folder."""
        paths = _CHANGES.get(event)
        if (
            not self.ended
            or paths is None
            or (event == "open" and not (isinstance(args[2], int) and args[2] & _WRITES))
        ):
            return
        for place, path in enumerate(args[:paths]):
            folder = args[paths + place] if event in {"os.remove", "os.rename"} else -1
            try:
                found = os.stat(path, dir_fd=folder if folder >= 0 else None)
            except (OSError, TypeError, ValueError):
                continue  # there is none, or it is no path
            moves = event == "os.rename" and stat.S_ISDIR(found.st_mode)
            if moves or (stat.S_ISREG(found.st_mode) and found.st_ctime < self.began):
                raise PermissionError(f"{path} was there before: a rehearsal does not change it")
