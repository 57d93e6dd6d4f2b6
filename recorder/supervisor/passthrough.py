"""Pass the script's stdout and stderr through byte for byte, and keep their tail.

Where ours is a terminal the script sees a terminal too, else a pipe. Where stdout and stderr are one thing (a terminal, `2>&1`)
the script gets one thing as well: the order of its lines is kept.
"""

import array
import fcntl
import os
import pty
import select
import subprocess
import termios
import threading
import time
from dataclasses import dataclass, field

from .output_tail import OutputTail

_CHUNK = 64 * 1024
_KERNEL_BUFFER = 1024 * 1024
"""At most what a pipe or terminal can hold (/proc/sys/fs/pipe-max-size): read after the script's end, all of it is
out."""

GRACE_S = 0.5
"""Time given after the script's end to descendants that still hold its output open."""


@dataclass
class _Channel:
    """One stream from the script: ``inner`` is our end, ``outer`` the script's, ``target`` our own stdout or stderr."""

    inner: int
    outer: int
    target: int
    is_terminal: bool
    ended: threading.Event = field(default_factory=threading.Event)
    wake: tuple[int, int] = field(default_factory=os.pipe)
    thread: threading.Thread | None = None
    left_open: bool = False


class Passthrough:
    """Create it, start the script on ``stdout`` and ``stderr``, then ``start`` and, after the script's end,
    ``finish``."""

    def __init__(self, tail: OutputTail) -> None:
        self._tail = tail
        self._channels = [_open(1)]
        if _same(1, 2):
            self.stdout = self.stderr = self._channels[0].outer
        else:
            self._channels.append(_open(2))
            self.stdout, self.stderr = (c.outer for c in self._channels)

    def start(self) -> None:
        """Begin to copy; the script has its ends by now."""
        for channel in self._channels:
            os.close(channel.outer)
            channel.thread = threading.Thread(
                target=self._copy, args=(channel,), name=f"copy to {channel.target}", daemon=True
            )
            channel.thread.start()

    def resize(self) -> None:
        """Give the script's terminal the size of ours."""
        for channel in self._channels:
            if channel.is_terminal:
                _copy_size(channel.target, channel.inner)

    def finish(self) -> None:
        """Copy what the script had written. Descendants that hold on to the stream keep it, through a process of
        their own."""
        for channel in self._channels:
            channel.ended.set()
            os.write(channel.wake[1], b"!")
        for channel in self._channels:
            if channel.thread is not None:
                channel.thread.join()
            if channel.left_open:
                # as with plain python: a background process of the script goes on writing to our output after us
                relay = ["cat"]
                subprocess.Popen(relay, stdin=channel.inner, stdout=channel.target, stderr=subprocess.DEVNULL)
                os.close(channel.inner)
            os.close(channel.wake[0])
            os.close(channel.wake[1])

    def _copy(self, channel: _Channel) -> None:
        poll = select.poll()
        poll.register(channel.inner, select.POLLIN)
        poll.register(channel.wake[0], select.POLLIN)
        deadline: float | None = None
        since_end = 0
        while True:
            timeout_ms = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000
            ready = {fd for fd, _ in poll.poll(timeout_ms)}
            if channel.wake[0] in ready:
                poll.unregister(channel.wake[0])
                deadline = time.monotonic() + GRACE_S
            if channel.inner in ready:
                data = _read(channel.inner)
                if not data:
                    break
                self._tail.write(data, channel.target)
                if not _write(channel.target, data):
                    break
                since_end += len(data) if deadline is not None else 0
            overdue = deadline is not None and time.monotonic() >= deadline
            if overdue and (channel.inner not in ready or since_end >= _KERNEL_BUFFER):
                channel.left_open = True
                return
        # closed also when nobody reads ours any more: the script's next write then fails as it would without us
        os.close(channel.inner)


def _open(target: int) -> _Channel:
    try:
        inner, outer = pty.openpty() if os.isatty(target) else (-1, -1)
    except OSError:  # no terminal to be had, as in some containers: a pipe still carries the bytes
        inner, outer = -1, -1
    if inner < 0:
        inner, outer = os.pipe()
        return _Channel(inner, outer, target, is_terminal=False)
    attributes = termios.tcgetattr(outer)
    attributes[1] &= ~termios.OPOST  # our own terminal turns newlines into what it needs; twice would change the bytes
    termios.tcsetattr(outer, termios.TCSANOW, attributes)
    _copy_size(target, outer)
    return _Channel(inner, outer, target, is_terminal=True)


def _same(a: int, b: int) -> bool:
    x, y = os.fstat(a), os.fstat(b)
    return (x.st_dev, x.st_ino) == (y.st_dev, y.st_ino)


def _copy_size(source: int, target: int) -> None:
    size = array.array("H", [0, 0, 0, 0])
    fcntl.ioctl(source, termios.TIOCGWINSZ, size)
    fcntl.ioctl(target, termios.TIOCSWINSZ, size)


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, _CHUNK)
    except OSError:  # EIO: the last holder of a terminal's other side has closed it
        return b""


def _write(fd: int, data: bytes) -> bool:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:  # a parent made our output non-blocking
            select.select([], [fd], [])
        except OSError:
            return False
    return True
