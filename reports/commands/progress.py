"""A sign of life for whatever takes longer than a second, in a terminal only."""

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

DELAY = 1.0
"""Seconds of silence before the sign appears."""

_NAME = 40  # characters of a name that a bar shows


@contextmanager
def sign_of_life(console: Console, words: str) -> Generator[None]:
    """Show a spinner with ``words`` once the block has run for DELAY seconds; nothing outside a terminal."""
    if not console.is_terminal:
        yield
        return
    status = console.status(words)
    timer = threading.Timer(DELAY, status.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        status.stop()


@contextmanager
def progress_of(console: Console, words: str, total: int) -> Generator[Callable[[str], None]]:
    """A bar over ``total`` pieces of work; call what is given with the name of each that is done. Nothing outside a
    terminal."""
    name = TextColumn("{task.fields[name]}", markup=False)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), name)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(words, total=total, name="")
        yield lambda done: progress.update(task, advance=1, name=_short(done))


def _short(name: str) -> str:
    shown = "".join(c if c.isprintable() else "?" for c in name)
    return shown if len(shown) <= _NAME else f"…{shown[1 - _NAME :]}"
