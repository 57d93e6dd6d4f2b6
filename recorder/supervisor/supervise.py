"""The parent process of a recorded script: starts it, hands everything through, watches it, and outlives it.

It samples the process tree once a second, turns finished journal segments into parts, and writes exit.json. It never
imports torch. Whatever fails here is said once on stderr and leaves the script and its exit status alone.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa

from ...schemas import TABLES, ExitRecord, encode_json, write_json
from ...schemas.files.layout import ENV_RUN, EXIT_JSON, EXIT_RESERVE, OUTPUT_LOG, SUPERVISOR_RANK
from ..base.errors import CompactionError
from ..base.options import options_of
from ..base.secrets import Redactor
from ..storage.attempt import attempt_of
from ..storage.housekeeping import Housekeeping
from ..storage.journal import JournalWriter
from . import signals
from .exit_record import MemoryWitness, build_exit
from .hang import HangWatch
from .output_tail import OutputTail
from .passthrough import Passthrough
from .process_tree import ControlGroup, ProcessTree, Sample
from .silence import PERIOD_S as SILENT_S
from .silence import SilenceWatch
from .torch_process import INJECT

PERIOD_S = 1.0
"""Between two samples of the process tree."""

_ROTATE_SAMPLES = 3600
"""An hour of samples makes a part."""

_NICENESS = 10
"""Of the thread that samples and compacts: the training goes first."""


def command_of(target: str, args: list[str], *, module: bool) -> list[str]:
    """The command line with which plain python would run it."""
    return [sys.executable, *(["-m"] if module else []), target, *args]


def environment_of(run: Path, environ: dict[str, str]) -> dict[str, str]:
    """The script's environment: its own, the run folder, and our sitecustomize in front of PYTHONPATH."""
    theirs = environ.get("PYTHONPATH", "")  # an empty entry in it is the working directory, and stays
    path = [str(INJECT), *(p for p in theirs.split(os.pathsep) if theirs and p != str(INJECT))]
    return {**environ, ENV_RUN: str(run), "PYTHONPATH": os.pathsep.join(path)}


def supervise(run: Path, command: list[str], before: set[signal.Signals], *, silent_after_s: float = SILENT_S) -> int:
    """Run ``command`` recorded into ``run``; returns its exit status as a shell gives it (128+n for signal n).

    ``before`` is the signal mask that the script is to have; the caller has called signals.block(). Writes exit.json.
    ``silent_after_s``: how long a process computes with torch before it is said that it is not recorded.
    """
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
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
    output.start()
    watch = Watch(run, script.pid, secrets, silent_after_s)
    guarded("sampling", watch.start)
    status, peak_rss = _wait(script, output)
    guarded("output", output.finish)
    tail.close()
    if tail.failure is not None:
        warn("output-log", f"{run / OUTPUT_LOG} is incomplete: {tail.failure.strerror}")
    guarded("sampling", watch.stop)
    guarded("exit-record", lambda: reserve.write(run, _ending(run, status, watch, peak_rss)))
    guarded("compaction", (watch.house or Housekeeping(run)).finish)
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.waitstatus_to_exitcode(status)


def _ending(run: Path, status: int, watch: "Watch", peak_rss: int) -> ExitRecord:
    record = build_exit(run, status, watch.memory(peak_rss), watch.hang_note())
    record.torch_processes = watch.torch_processes()
    return record


def warn(slug: str, sentence: str) -> None:
    """One line on stderr that a search for its slug explains."""
    say(f"[{slug}] {sentence}")


def say(sentence: str) -> None:
    """One line on stderr, which may be gone with its terminal: then nobody is left to hear it."""
    with contextlib.suppress(OSError):
        os.write(2, f"firstfault: {sentence}\n".encode("utf-8", "backslashreplace"))


def guarded(slug: str, action: Callable[[], object], said: set[str] | None = None) -> None:
    """Do ``action``; what it raises becomes one warning (one for each slug where ``said`` remembers them), because the
    script's exit status must come through whatever happens here."""
    try:
        action()
    except Exception as e:  # noqa: BLE001 - see above
        if said is None or slug not in said:
            warn(slug, str(e) if isinstance(e, CompactionError) else f"{type(e).__name__}: {e}")
        if said is not None:
            said.add(slug)


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


@dataclass
class Watch:
    """The thread that looks at the script once a second and keeps the journal short."""

    run: Path
    pid: int
    secrets: Redactor
    silent_after_s: float = SILENT_S
    house: Housekeeping | None = None
    """Of the run folder; None until the thread has begun."""
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _last: Sample | None = None
    _peak_rss: int = 0
    _kills_before: int | None = None
    _kills_last: int | None = None
    _said: set[str] = field(default_factory=set)
    _hang: HangWatch | None = None
    _silence: SilenceWatch | None = None

    def start(self) -> None:
        """Begin; the first sample is taken at once."""
        self._thread = threading.Thread(target=guarded, args=("watch", self._loop), name="watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End after the sample or part in work."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def memory(self, peak_rss: int) -> MemoryWitness:
        """What was seen, with the peak of the largest single process, which no sample can miss."""
        last = self._last
        kills = None
        if self._kills_before is not None and self._kills_last is not None:
            kills = self._kills_last - self._kills_before
        return MemoryWitness(
            used_bytes=last.memory_used_bytes if last else None,
            limit_bytes=last.memory_limit_bytes if last else None,
            peak_bytes=max(self._peak_rss, peak_rss),
            oom_kills=kills,
        )

    def hang_note(self) -> str | None:
        """What is to be said about a hang in which the run ended; None where it ended on the move."""
        return self._hang.note() if self._hang is not None else None

    def torch_processes(self) -> int | None:
        """Processes that were seen with torch loaded; None where nobody could look."""
        return self._silence.torch_processes if self._silence is not None else None

    def _loop(self) -> None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)  # Linux: of this thread alone
        group = ControlGroup.own()
        self._kills_before = self._kills_last = group.memory().oom_kills
        tree = ProcessTree(self.pid, group)
        journal = JournalWriter(self.run, SUPERVISOR_RANK, attempt_of(self.run).first_part)
        options = options_of(self.run)
        self._hang = hang = HangWatch(self.run, options.hang_timeout_s, say)
        self.house = house = Housekeeping(self.run, journal, say)
        self._silence = silence = SilenceWatch(self.run, self.pid, self.secrets, say, self.silent_after_s)
        rows = 0
        due = time.monotonic()
        while True:
            guarded("sampling", lambda: self._sample(tree, journal), self._said)
            rows += 1
            if rows % _ROTATE_SAMPLES == 0:
                journal.rotate()
            guarded("compaction", house.look, self._said)
            guarded("hang-watch", lambda: self._look_for_hang(hang, kill=options.hang_kill), self._said)
            guarded("silence-watch", lambda: _append_events(journal, silence.look()), self._said)
            due = max(due + PERIOD_S, time.monotonic())
            if self._stop.wait(due - time.monotonic()):
                break
        guarded("silence-watch", lambda: _append_events(journal, silence.end()), self._said)
        journal.close()
        self._kills_last = group.memory().oom_kills

    def _look_for_hang(self, hang: HangWatch, *, kill: bool) -> None:
        """Stacks first; only where the user asked for it the script is ended, a second after they were asked for."""
        if hang.look() or not (kill and hang.hanging):
            return
        for process in psutil.Process(self.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def _sample(self, tree: ProcessTree, journal: JournalWriter) -> None:
        sample = tree.sample()
        if sample is None:
            return
        self._last = sample
        self._peak_rss = max(self._peak_rss, sample.rss_bytes)
        schema = TABLES["system_samples"].schema
        journal.append({"system_samples": pa.RecordBatch.from_pylist([asdict(sample)], schema)})


def _append_events(journal: JournalWriter, rows: list[dict[str, Any]]) -> None:
    if rows:
        journal.append({"events": pa.RecordBatch.from_pylist(rows, TABLES["events"].schema)})
