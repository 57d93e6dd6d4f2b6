"""The parent process of a recorded script: starts it, hands everything through, watches it, and outlives it.

What it sees while the script runs is watch.py's. It never imports torch. Whatever fails here is said once on stderr and leaves
the script and its exit status alone.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...schemas import ExitRecord, encode_json, write_json
from ...schemas.files.layout import ENV_RUN, EXIT_JSON, EXIT_RESERVE, OUTPUT_LOG
from ...schemas.files.secrets import Redactor
from ..base.options import options_of
from . import signals
from .clock import since_boot_s
from .output_tail import OutputTail
from .passthrough import Passthrough
from .torch_process import INJECT
from .troubles import guarded, warn

if TYPE_CHECKING:
    from .watch import SupervisorThread


def command_of(target: str, args: list[str], *, module: bool) -> list[str]:
    """The command line with which plain python would run it."""
    return [sys.executable, *(["-m"] if module else []), target, *args]


def environment_of(run: Path, environ: dict[str, str]) -> dict[str, str]:
    """The script's environment: its own, the run folder, and our sitecustomize in front of PYTHONPATH."""
    theirs = environ.get("PYTHONPATH", "")  # an empty entry in it is the working directory, and stays
    path = [str(INJECT), *(p for p in theirs.split(os.pathsep) if theirs and p != str(INJECT))]
    return {**environ, ENV_RUN: str(run), "PYTHONPATH": os.pathsep.join(path)}


def supervise(
    run: Path, command: list[str], before: set[signal.Signals], *, silent_after_s: float | None = None
) -> int:
    """Run ``command`` recorded into ``run``; returns its exit status as a shell gives it (128+n for signal n).

    ``before`` is the signal mask that the script is to have; the caller has called signals.block(). Writes exit.json.
    ``silent_after_s``: how long a process computes with torch before it is said that it is not recorded; None for the usual time.
    """
    _fill_standard_streams()
    reserve = _Reserve(run / EXIT_RESERVE)
    secrets = Redactor(command, os.environ, keep=options_of(run).keep_secrets)
    tail = OutputTail(run / OUTPUT_LOG, hide=secrets.output)
    output = Passthrough(tail)
    script = subprocess.Popen(
        command,
        stdout=output.stdout,
        stderr=output.stderr,
        env=environment_of(run, dict(os.environ)),
        close_fds=False,  # what our parent let us inherit is the script's; our own descriptors are not inheritable
        # no thread of Python runs yet, so the fork is safe
        preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, before),  # noqa: PLW1509
    )
    started_s = since_boot_s()
    output.start()
    watch = guarded("watch", lambda: _watch(run, script.pid, secrets, silent_after_s))
    if watch is not None:
        guarded("sampling", watch.start)
    status, peak_rss = _wait(script, output)
    ended_s = since_boot_s()
    guarded("output", output.finish)
    tail.close()
    if tail.failure is not None:
        warn("output-log", f"{run / OUTPUT_LOG} is incomplete: {tail.failure.strerror}")
    if watch is not None:
        guarded("sampling", watch.stop)
        ended = guarded("ending", lambda: watch.ending(status, peak_rss))
        if ended is not None:
            guarded("exit-record", lambda: reserve.write(run, ended))
        watch.finish(ended, started_s, ended_s)
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.waitstatus_to_exitcode(status)


def _watch(run: Path, pid: int, secrets: Redactor, silent_after_s: float | None) -> "SupervisorThread":
    with _without_numpy():
        import_module("pyarrow.compute")  # the end needs it, and whoever waits for the end need not wait for this too
        from .watch import SupervisorThread  # noqa: PLC0415 - loads Arrow: the script need not wait for that

    return SupervisorThread(run, pid, secrets, silent_after_s)


@contextlib.contextmanager
def _without_numpy() -> Generator[None]:
    """Arrow loads NumPy where it finds it, which takes twice as long as Arrow itself; nothing here uses it."""
    modules: dict[str, Any] = sys.modules  # None for a module has its import fail
    absent = "numpy" not in modules
    if absent:
        modules["numpy"] = None
    try:
        yield
    finally:
        if absent:
            del modules["numpy"]


def _wait(script: subprocess.Popen[bytes], output: Passthrough) -> tuple[int, int]:
    """Forward signals until the script ends; its wait status and the peak resident memory of its largest process in
    bytes."""
    while True:
        info = signal.sigwaitinfo(signals.WATCHED)
        number = signal.Signals(info.si_signo)
        if number == signal.SIGCHLD:
            pid, status, usage = os.wait4(script.pid, os.WNOHANG)
            if pid:
                script.returncode = os.waitstatus_to_exitcode(status)
                return status, usage.ru_maxrss * 1024
        elif number == signal.SIGWINCH:
            with contextlib.suppress(OSError):  # the terminal has just gone: its hangup follows
                output.resize()
        elif signals.to_us_alone(info):
            os.kill(script.pid, number)  # it has not been waited for, so the number is still its own


class _Reserve:
    """Disk space set aside at the start, so that exit.json finds room on a disk that the training has filled."""

    SIZE = 256 * 1024  # a traceback, native stacks, a position for each of some hundred ranks

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        os.posix_fallocate(self._fd, 0, self.SIZE)

    def write(self, run: Path, record: ExitRecord) -> None:
        """Write exit.json in the space that is given back for it; where the folder no longer takes a new file, into the
        reserve itself, which readers look into too. Raises OSError when neither can be done."""
        os.ftruncate(self._fd, 0)
        try:
            write_json(run / EXIT_JSON, record)
        except OSError:
            if not self._path.exists():
                raise
            os.pwrite(self._fd, encode_json(record), 0)
        else:
            self._path.unlink(missing_ok=True)


def _fill_standard_streams() -> None:
    """Where our caller closed stdin, stdout or stderr, the next file to be opened would take its place."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(fd, True)
