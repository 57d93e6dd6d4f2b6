"""The end of an epoch, rehearsed: a pass over the training data ends early, so that what comes after it runs once.

What is saved meanwhile goes to a folder of ours and is read from there again. A file that was there before is not written over,
moved or removed: the script breaks off instead, and its user learns which file it was.
"""

import atexit
import functools
import os
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import dataloader

from ..session.patches import Patches
from .optimizer_interventions import Intervention

_WRITES = os.O_WRONLY | os.O_RDWR
_CHANGES = {"open": 1, "os.truncate": 1, "os.remove": 1, "os.rename": 2}
"""Audit events of Python that change files, and how many paths they name first."""


class EpochShortened(Intervention):
    """The DataLoader that feeds the training has no more batches from the step on, once: its next pass is a whole one."""

    def __init__(self, now: Callable[[], int], step: int, values: dict[str, Any]) -> None:
        super().__init__(now, step, values)
        self.ended = False
        self.saved: dict[str, Path] = {}
        """Path that the script saved to → where it is."""
        self.folder: Path | None = None
        self._numbers = count()
        self.began = time.time()

    def install(self, patches: Patches) -> None:
        """Wrap the loaders' iterators, and what writes and reads files."""
        fed: set[int] = set()

        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def following(iterator: Any) -> Any:
                trains = torch.is_grad_enabled()
                if trains and self.active and not self.ended and id(iterator) in fed:
                    self.ended = True
                    raise StopIteration
                batch = original(iterator)
                if trains and not self.ended:
                    fed.add(id(iterator))
                return batch

            return following

        patches.wrap(dataloader._BaseDataLoaderIter, "__next__", wrap)
        patches.wrap(torch.serialization, "save", self._aside("f", 1))
        patches.put(torch, "save", torch.serialization.save)
        patches.wrap(torch.serialization, "load", self._back)
        patches.put(torch, "load", torch.serialization.load)
        patches.after_import("safetensors.torch", lambda m: patches.wrap(m, "save_file", self._aside("filename", 1)))
        for name in ("rename", "replace"):  # a checkpoint that is written beside and then put in place
            patches.wrap(os, name, self._moved)
        for name in ("remove", "unlink"):
            patches.wrap(os, name, self._removed)
        sys.addaudithook(self._asked)  # it stays as long as the process
        patches.later(lambda: setattr(self, "ended", False))

    def _aside(self, name: str, place: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Have a function write to our folder what it would write to a path."""

        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def save(*args: Any, **kwargs: Any) -> Any:
                target = kwargs.get(name, args[place] if len(args) > place else None)
                if not isinstance(target, str | os.PathLike):
                    return original(*args, **kwargs)
                if self.folder is None:
                    self.folder = folder = Path(tempfile.mkdtemp(prefix="firstfault-rehearsal-"))
                    atexit.register(lambda: shutil.rmtree(folder, ignore_errors=True))
                aside = self.folder / str(next(self._numbers))
                self.saved[os.path.abspath(target)] = aside  # noqa: PTH100 — as the script spells it, links and all
                if name in kwargs:
                    kwargs[name] = aside
                else:
                    args = (*args[:place], aside, *args[place + 1 :])
                return original(*args, **kwargs)

            return save

        return wrap

    def _back(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def load(f: Any, *args: Any, **kwargs: Any) -> Any:
            if isinstance(f, str | os.PathLike):
                f = self.saved.get(os.path.abspath(f), f)  # noqa: PTH100 — as above
            return original(f, *args, **kwargs)

        return load

    def _moved(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def move(src: Any, dst: Any, **kwargs: Any) -> None:
            aside = self._forget(src)
            if aside is None:
                original(src, dst, **kwargs)
            else:
                self.saved[os.path.abspath(dst)] = aside  # noqa: PTH100 — as above

        return move

    def _removed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def remove(path: Any, **kwargs: Any) -> None:
            if self._forget(path) is None:
                original(path, **kwargs)

        return remove

    def _forget(self, path: Any) -> Path | None:
        """Where a checkpoint is that was saved to this path and is to be there no more."""
        if not isinstance(path, str | os.PathLike):
            return None
        return self.saved.pop(os.path.abspath(path), None)  # noqa: PTH100 — as above

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
