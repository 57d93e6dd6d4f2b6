"""A folder for what memory has no room for while a large run is judged. What killed processes left there is removed."""

import fcntl
import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from weakref import finalize

_PREFIX = "firstfault-scratch-"
_LOCK = "lock"


class Scratch:
    """Make a folder that belongs to this process until it is closed. The lock in it ends with the process, however that ends."""

    def __init__(self) -> None:
        _remove_left()
        self.path = Path(mkdtemp(prefix=_PREFIX))
        lock = os.open(self.path / "unlocked", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        with suppress(OSError):  # on a file system without locks nobody removes it but us
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            (self.path / "unlocked").rename(self.path / _LOCK)
        self._end = finalize(self, _remove, self.path, lock)

    def close(self) -> None:
        """Remove the folder. Idempotent."""
        self._end()


def _remove(folder: Path, lock: int) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)


def _remove_left() -> None:
    """Remove folders of ours whose process is gone: a lock that can be taken is nobody's."""
    for folder in Path(gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            about = folder.lstat()
            if about.st_uid != os.getuid() or not stat.S_ISDIR(about.st_mode):
                continue
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(lock)
                raise
            _remove(folder, lock)
