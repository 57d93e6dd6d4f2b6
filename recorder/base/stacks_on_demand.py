"""A process writes the stacks of all its threads into the run folder when the supervisor asks for them by a signal.

faulthandler answers in C, without the interpreter's lock, and restarts what it interrupts.
"""

import faulthandler
import os
import signal
from pathlib import Path

from ...schemas.files.layout import native_stack_path, rank_folder

STACK_SIGNAL = signal.SIGRTMAX - 5
"""Sent only to a process that has a handler for it: without one a real-time signal ends its receiver."""

_descriptors: list[int] = []
"""The file into which this process writes its stacks; faulthandler writes to the descriptor, which must stay open."""


def answer_with_stacks(run: Path, rank: int) -> None:
    """Have this process write the stacks of all its threads into the run folder when the supervisor asks.

    Left out where the script has a handler of its own for that signal."""
    if signal.getsignal(STACK_SIGNAL) is not signal.SIG_DFL:
        return
    path = hang_stack_path(run, rank)
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    faulthandler.register(STACK_SIGNAL, descriptor, all_threads=True, chain=False)
    while _descriptors:  # of an earlier recording in this process
        os.close(_descriptors.pop())
    _descriptors.append(descriptor)


def hang_stack_path(run: Path, rank: int) -> Path:
    """Beside the stacks of native crashes, with which the exit record reads it."""
    return native_stack_path(run, rank).with_name(f"{rank_folder(rank)}-hang.txt")
