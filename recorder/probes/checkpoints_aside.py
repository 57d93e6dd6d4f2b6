"""Checkpoints of a rehearsal: what a script saves goes to a folder of ours and is read from there again.

A listing in that folder tells which path each file stands for, so that a later start can go on from what was saved.
"""

import atexit
import functools
import os
import shutil
import tempfile
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import dataloader

from ...schemas.files.rehearsed import not_saved_otherwise, write_listing, write_state
from ..session.patches import Patches
from .optimizer_interventions import Intervention
from .script_state import script_state


class CheckpointsAside:
    """Files that were saved to paths of the script's. ``folder``: where they stay; None: they go with the process."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.saved: dict[str, Path] = {}
        """Path that the script saved to → where it is."""
        self._kept = folder
        self._numbers = count()

    def install(self, patches: Patches) -> None:
        """Wrap what writes and reads checkpoints, and what moves and removes files."""
        patches.wrap(torch.serialization, "save", self._aside("f", 1))
        patches.put(torch, "save", torch.serialization.save)
        patches.wrap(torch.serialization, "load", self._back)
        patches.put(torch, "load", torch.serialization.load)
        patches.after_import("safetensors.torch", self._safetensors(patches))
        for name in ("rename", "replace"):  # a checkpoint that is written beside and then put in place
            patches.wrap(os, name, self._moved)
        for name in ("remove", "unlink"):
            patches.wrap(os, name, self._removed)

    def _safetensors(self, patches: Patches) -> Callable[[Any], None]:
        def wrap(module: Any) -> None:
            patches.wrap(module, "save_file", self._aside("filename", 1))
            patches.wrap(module, "load_file", self._back)

        return wrap

    def keep_no_more(self) -> None:
        """Leave the listing for a later start as it is: what is saved from here on is read again by this process alone."""
        self._kept = None

    def place_of(self, path: Any) -> Path | None:
        """Where the file is that was saved to this path; None where none was."""
        if not isinstance(path, str | os.PathLike):
            return None
        return self.saved.get(os.path.abspath(path))  # noqa: PTH100 — as the script spells it, links and all

    def _aside(self, name: str, place: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Have a function write to our folder what it would write to a path."""

        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def save(*args: Any, **kwargs: Any) -> Any:
                target = kwargs.get(name, args[place] if len(args) > place else None)
                if not isinstance(target, str | os.PathLike):
                    return original(*args, **kwargs)
                aside = self._own_folder() / str(next(self._numbers))
                self._put(target, aside)
                if name in kwargs:
                    kwargs[name] = aside
                else:
                    args = (*args[:place], aside, *args[place + 1 :])
                return original(*args, **kwargs)

            return save

        return wrap

    def _own_folder(self) -> Path:
        if self.folder is None:
            self.folder = folder = Path(tempfile.mkdtemp(prefix="firstfault-rehearsal-"))
            atexit.register(lambda: shutil.rmtree(folder, ignore_errors=True))
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.folder

    def _put(self, target: Any, aside: Path) -> None:
        self.saved[os.path.abspath(target)] = aside  # noqa: PTH100 — as above
        self._list()

    def _list(self) -> None:
        if self._kept is not None:
            write_listing(self._kept, self.saved)

    def _back(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def load(f: Any, *args: Any, **kwargs: Any) -> Any:
            return original(self.place_of(f) or f, *args, **kwargs)

        return load

    def _moved(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def move(src: Any, dst: Any, **kwargs: Any) -> None:
            aside = self._forget(src)
            if aside is None:
                original(src, dst, **kwargs)
            else:
                self._put(dst, aside)

        return move

    def _removed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def remove(path: Any, **kwargs: Any) -> None:
            if self._forget(path) is None:
                original(path, **kwargs)

        return remove

    def _forget(self, path: Any) -> Path | None:
        """Where a checkpoint is that was saved to this path and is to be there no more."""
        if self.place_of(path) is None:
            return None
        aside = self.saved.pop(os.path.abspath(path))  # noqa: PTH100 — as above
        self._list()
        return aside


class CheckpointsBack(Intervention):
    """The script finds the checkpoints that a rehearsal saved where it would have saved them, unless it has its own there."""

    def install(self, patches: Patches) -> None:
        """Wrap what reads checkpoints, and the question whether they exist."""
        aside = CheckpointsAside(None)
        aside.saved = not_saved_otherwise(Path(self.values["kept"]))
        aside.install(patches)

        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def stat(path: Any, *args: Any, **kwargs: Any) -> Any:
                try:
                    return original(path, *args, **kwargs)
                except FileNotFoundError:
                    place = aside.place_of(path)
                    if place is None:
                        raise
                    return original(place, *args, **kwargs)

            return stat

        patches.wrap(os, "stat", wrap)
        patches.wrap(dataloader._BaseDataLoaderIter, "__next__", self._looks)

    def _looks(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Keep what the script holds where its training begins."""
        looked = False

        @functools.wraps(original)
        def following(iterator: Any) -> Any:
            nonlocal looked
            if not looked and torch.is_grad_enabled():
                looked = True
                write_state(Path(self.values["kept"]), "now", script_state())
            return original(iterator)

        return following
