"""Checkpoints of a rehearsal: what a script saves goes to a folder of ours and is read from there again.

A listing in that folder tells which path each file stands for, so that a later start can go on from what was saved.
"""

import atexit
import builtins
import errno
import functools
import io
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, Self

import torch
from torch.utils.data import dataloader

from ...schemas.files.rehearsed import not_saved_otherwise, read_listing, write_asked, write_listing, write_state
from ..session.patches import Patches
from .optimizer_interventions import Intervention
from .script_state import script_state

_MOST_ASKED = 1000
"""Paths that a script may ask for before its training begins; more are no checkpoints."""


class CheckpointsAside:
    """Files that were saved to paths of the script's. ``folder``: where they stay; None: they go with the process. ``hidden``:
    files that are not to be there, until the script saves them itself."""

    def __init__(self, folder: Path | None, hidden: Iterable[str] = ()) -> None:
        self.folder = folder
        self.hidden = frozenset(hidden)
        self.asked: set[str] = set()
        """Paths that the script has asked for in vain before its training began."""
        self.listed: set[str] = set()
        """Folders that it has listed before."""
        self.begun = False
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
        for name in ("stat", "lstat"):
            patches.wrap(os, name, self._stat)
        if self.hidden:
            for owner in (builtins, io):
                patches.wrap(owner, "open", self._open)
        patches.wrap(os, "listdir", self._names)
        patches.wrap(os, "scandir", self._entries)

    def use(self, kept: Path) -> None:
        """Have what another rehearsal has saved found where the script would have saved it, unless it has its own file there."""
        own = not_saved_otherwise(kept)
        self.saved |= {path: aside for path, aside in read_listing(kept).items() if path in self.hidden or path in own}

    def _gone(self, path: Any) -> bool:
        """Whether a file is not to be there."""
        return bool(self.hidden) and self._absolute(path) in self.hidden and self.place_of(path) is None

    @staticmethod
    def _absolute(path: Any) -> str:
        return os.path.abspath(path) if isinstance(path, str | os.PathLike) else ""  # noqa: PTH100 — as below

    def _in_vain(self, path: Any) -> None:
        if not self.begun and len(self.asked) < _MOST_ASKED and (name := self._absolute(path)):
            self.asked.add(name)

    def _stat(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def look(path: Any, *args: Any, **kwargs: Any) -> Any:
            place = self.place_of(path)
            if place is not None:
                return original(place, *args, **kwargs)
            try:
                if self._gone(path):
                    raise _missing(path)
                return original(path, *args, **kwargs)
            except FileNotFoundError:
                self._in_vain(path)
                raise

        return look

    def _open(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def opened(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
            if not set("wax") & set(mode) and self._gone(file):
                self._in_vain(file)
                raise _missing(file)
            return original(file, mode, *args, **kwargs)

        return opened

    def _names(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def names(path: Any = ".") -> Any:
            aside = self._saved_in(path)
            try:
                found = original(path)
            except FileNotFoundError:
                if not aside:
                    raise
                found = []
            shown = [name for name in found if self._is_listed(path, name)]
            return [*shown, *(name for name in aside if name not in shown)] if aside else shown

        return names

    def _entries(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def entries(path: Any = ".") -> Any:
            aside = self._saved_in(path)
            if not aside and not self.hidden:
                return original(path)
            try:
                found = original(path)
            except FileNotFoundError:
                if not aside:
                    raise
                found = None
            more = [_SavedEntry(os.path.join(path, name), place) for name, place in aside.items()]  # noqa: PTH118 — as below
            return _Entries(found, functools.partial(self._is_listed, path), more)

        return entries

    def _saved_in(self, folder: Any) -> dict[str, Path]:
        """Names of what was saved to a folder of the script's, and where it is. A folder that is looked at before the training
        begins may be one to go on from."""
        if not isinstance(folder, str | os.PathLike):
            return {}
        place = self._absolute(folder)
        if not self.begun and len(self.listed) < _MOST_ASKED:
            self.listed.add(place)
        return {os.path.basename(p): aside for p, aside in self.saved.items() if os.path.dirname(p) == place}  # noqa: PTH119, PTH120 — as below

    def _is_listed(self, folder: Any, name: Any) -> bool:
        if not isinstance(folder, str | os.PathLike) or not isinstance(name, str):
            return True
        path = os.path.join(folder, name)  # noqa: PTH118 — as below
        gone = self._gone(path)
        if gone:
            self._in_vain(path)
        return not gone

    def _safetensors(self, patches: Patches) -> Callable[[Any], None]:
        def wrap(module: Any) -> None:
            patches.wrap(module, "save_file", self._aside("filename", 1))
            patches.wrap(module, "load_file", self._back)

        return wrap

    def training_begins(self) -> None:
        """What the script asks for from here on is no checkpoint to go on from."""
        if not self.begun:
            self.begun = True
            if self._kept is not None:
                self._kept.mkdir(parents=True, exist_ok=True)
                self._list()

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
            found_by_listing = {path for path in self.saved if os.path.dirname(path) in self.listed}  # noqa: PTH120 — as below
            write_asked(self._kept, sorted((self.asked & {*self.saved, *self.hidden}) | found_by_listing))

    def _back(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def load(f: Any, *args: Any, **kwargs: Any) -> Any:
            if self._gone(f):
                self._in_vain(f)
                raise _missing(f)
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


class _Entries:
    """Entries of a folder without those that are not to be there."""

    def __init__(self, entries: Any, listed: Callable[[Any], bool], more: "list[_SavedEntry]") -> None:
        self._entries = entries
        self._listed = listed
        self._more = more

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        for entry in self._entries or ():
            if self._listed(entry.name):
                self._more = [more for more in self._more if more.name != entry.name]
                return entry
        if self._more:
            return self._more.pop(0)
        raise StopIteration

    def close(self) -> None:
        """Close the folder."""
        if self._entries is not None:
            self._entries.close()


class _SavedEntry:
    """What os.scandir gives for a file that was saved aside."""

    def __init__(self, path: str, place: Path) -> None:
        self.path, self.name, self._place = path, os.path.basename(path), place  # noqa: PTH119 — as above

    def __fspath__(self) -> str:
        return self.path

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """It is one."""
        del follow_symlinks
        return True

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """It is none."""
        del follow_symlinks
        return False

    def is_symlink(self) -> bool:
        """It is none."""
        return False

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Of the file in our folder."""
        return self._place.stat(follow_symlinks=follow_symlinks)

    def inode(self) -> int:
        """The same."""
        return self._place.stat().st_ino


def _missing(path: Any) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(path))


class CheckpointsBack(Intervention):
    """The script finds the checkpoints that a rehearsal saved where it would have saved them, unless it has its own there."""

    def install(self, patches: Patches) -> None:
        """Wrap what reads checkpoints, and the question whether they exist."""
        aside = CheckpointsAside(None)
        aside.use(Path(self.values["kept"]))
        aside.install(patches)
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
