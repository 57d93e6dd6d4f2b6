"""A look at the script's objects in a forked child, as a worker of a DataLoader has them: what it changes is thrown away.

The child may write no file and ends when its time is over.
"""

import contextlib
import io
import json
import mmap
import os
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch

_CHANGES_FILES = {"os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink"}
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

_OBJECTS = 20_000
_DEPTH = 6


class NoAnswerError(Exception):
    """The child could not say anything; the text says why."""


def not_copied(value: Any) -> str | None:
    """What a value holds that parent and child would share: a place in a file, memory that is written through."""
    left = [_OBJECTS]
    return _not_copied(value, set(), left, 0)


def _not_copied(value: Any, seen: set[int], left: list[int], depth: int) -> str | None:
    left[0] -= 1
    if left[0] < 0 or depth > _DEPTH or id(value) in seen or isinstance(value, type | str | bytes | int | float | None):
        return None
    seen.add(id(value))
    if isinstance(value, io.IOBase):
        return "an open file"
    if isinstance(value, mmap.mmap):
        return "a mapped file"
    if isinstance(value, torch.Tensor):
        return "a tensor in shared memory" if value.device.type == "cpu" and value.is_shared() else None
    if type(value).__module__ == "numpy":
        return "a mapped file" if _writes_through(value) else None
    if isinstance(value, list | tuple):
        inner: list[Any] = list(value)
    elif isinstance(value, dict):
        inner = list(value.values())
    else:
        held = getattr(value, "__dict__", None)
        inner = list(held.values()) if isinstance(held, dict) else []
    found = (_not_copied(v, seen, left, depth + 1) for v in inner)
    return next((f for f in found if f is not None), None)


def _writes_through(array: Any) -> bool:
    while array is not None:
        if getattr(array, "mode", "r") not in {"r", "c"}:
            return True
        array = getattr(array, "base", None)
    return False


def in_a_child(look: Callable[[], dict[str, Any]], seconds: float, *read: Any) -> dict[str, Any]:
    """What ``look`` gives in a copy of this process, of objects that it reads. Raises NoAnswerError."""
    if (what := next(filter(None, map(not_copied, read)), None)) is not None:
        raise NoAnswerError(f"the data set holds {what}")
    if not hasattr(os, "fork") or sys.platform == "darwin":
        raise NoAnswerError("a process cannot be copied here")
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pid = os.fork()
    if pid == 0:
        _answer(look, reading, writing)
    os.close(writing)
    try:
        told = _read(reading, time.monotonic() + seconds)
    finally:
        os.close(reading)
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            os.waitpid(pid, 0)
    if not told:
        raise NoAnswerError("it took too long")
    found = json.loads(told)
    if "error" in found:
        raise NoAnswerError(found["error"])
    return found


def _read(pipe: int, until: float) -> bytes:
    """All that is written up to the end of the pipe; nothing where that does not come in time."""
    told = b""
    while (left := until - time.monotonic()) > 0:
        if not select.select([pipe], [], [], left)[0]:
            break
        piece = os.read(pipe, 1 << 16)
        if not piece:
            return told
        told += piece
    return b""


def _answer(look: Callable[[], dict[str, Any]], reading: int, writing: int) -> None:
    """In the child; it never returns."""
    try:
        os.close(reading)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM):
            signal.signal(number, signal.SIG_DFL)
        torch.set_num_threads(1)
        sys.addaudithook(_forbid_writing)
        try:
            told = look()
        except NoAnswerError as e:
            told = {"error": str(e)}
        except BaseException as e:  # noqa: BLE001 — also what the script's code exits by
            told = {"error": f"{type(e).__name__}: {e}"[:200]}
        left = json.dumps(told).encode()
        while left:
            left = left[os.write(writing, left) :]
    finally:
        os._exit(0)


def _forbid_writing(event: str, args: tuple[Any, ...]) -> None:
    if event == "open":
        _, mode, flags = args
        if flags & _WRITES if isinstance(flags, int) else any(c in str(mode) for c in "wax+"):
            raise PermissionError("a sample that is read writes a file")
    elif event in _CHANGES_FILES:
        raise PermissionError("a sample that is read changes files")
