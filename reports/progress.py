"""A sign of life for whatever takes longer than a second, in a terminal only."""

import threading
from collections.abc import Generator
from contextlib import contextmanager

from rich.console import Console

DELAY = 1.0
"""Seconds of silence before the sign appears."""


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
