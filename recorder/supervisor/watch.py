"""The parent's look at a script, once a second: samples of its processes, finished segments made into parts, and the exit record.

Imported once the script has started, because Arrow takes a tenth of a second to load.
"""

import contextlib
import os
import signal
import threading
import time
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from ...schemas import ExitRecord, SupervisorCost, write_json
from ...schemas.files.integrity import write_checksums
from ...schemas.files.layout import EXIT_JSON, SUPERVISOR_RANK
from ...schemas.files.secrets import Redactor
from ...schemas.files.step_values import STEP_VALUES
from ..base.options import options_of
from ..storage.attempt import attempt_of
from ..storage.housekeeping import Housekeeping
from ..storage.journal import JournalWriter
from .clock import own_start_s, since_boot_s
from .descendants import Descendants
from .exit_record import MemoryWitness, build_exit
from .hang import HangWatch
from .process_tree import ControlGroup, ProcessTree, Sample
from .silence import PERIOD_S as SILENT_S
from .silence import SilenceWatch
from .troubles import guarded, say

PERIOD_S = 1.0
"""Between two samples of the process tree."""

_ROTATE_SAMPLES = 3600
"""An hour of samples makes a part."""

_NICENESS = 10
"""Of the thread that samples and compacts: the training goes first."""


@dataclass
class SupervisorThread:
    """The thread that looks at the script once a second and keeps the journal short."""

    run: Path
    pid: int
    secrets: Redactor
    silent_after_s: float | None = None
    """None: as long as SilenceWatch waits by itself."""
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _last: Sample | None = None
    _peak_rss: int = 0
    _kills_before: int | None = None
    _kills_last: int | None = None
    _said: set[str] = field(default_factory=set)
    _house: Housekeeping | None = None
    _hang: HangWatch | None = None
    _silence: SilenceWatch | None = None

    def start(self) -> None:
        """Begin; the first sample is taken at once. The script must not have been waited for: its number is still its own."""
        pa.set_cpu_count(1)
        pa.set_io_thread_count(1)
        tree = ProcessTree(self.pid, ControlGroup.own())
        self._silence = SilenceWatch(self.run, self.pid, self.secrets, say, self.silent_after_s or SILENT_S)
        loop = partial(self._loop, tree, self._silence)
        self._thread = threading.Thread(target=guarded, args=("watch", loop), name="watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End after the sample or part in work."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def ending(self, status: int, peak_rss: int) -> ExitRecord:
        """How the script ended, from its wait status and the peak of its largest process, which no sample can miss."""
        note = self._hang.note() if self._hang is not None else None
        record = build_exit(self.run, status, self._memory(peak_rss), note)
        record.torch_processes = self._silence.torch_processes if self._silence is not None else None
        return record

    def finish(self, ended: ExitRecord | None, started_s: float, ended_s: float) -> None:
        """Make parts of what is left, say what all this took, and list the checksums. Times are ``since_boot_s()``."""
        guarded("compaction", (self._house or Housekeeping(self.run)).finish)
        if ended is not None and (self.run / EXIT_JSON).exists():
            ended.cost = _cost(started_s, ended_s)
            with contextlib.suppress(OSError):  # a disk that is full holds the record without it
                write_json(self.run / EXIT_JSON, ended)
        guarded("checksums", lambda: write_checksums(self.run))

    def _memory(self, peak_rss: int) -> MemoryWitness:
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

    def _loop(self, tree: ProcessTree, silence: SilenceWatch) -> None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)  # Linux: of this thread alone
        group = ControlGroup.own()
        self._kills_before = self._kills_last = group.memory().oom_kills
        journal = JournalWriter(self.run, SUPERVISOR_RANK, attempt_of(self.run).first_part)
        options = options_of(self.run)
        self._hang = hang = HangWatch(self.run, options.hang_timeout_s, say)
        self._house = house = Housekeeping(self.run, journal, say)
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
        for pid in reversed(Descendants(self.pid).look()):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)

    def _sample(self, tree: ProcessTree, journal: JournalWriter) -> None:
        sample = tree.sample()
        if sample is None:
            return
        self._last = sample
        self._peak_rss = max(self._peak_rss, sample.rss_bytes)
        journal.append({STEP_VALUES: {"system_samples": [asdict(sample)]}})


def _cost(started_s: float, ended_s: float) -> SupervisorCost:
    return SupervisorCost(
        before_ns=int((started_s - own_start_s()) * 1e9),
        after_ns=int((since_boot_s() - ended_s) * 1e9),
        processor_ns=time.process_time_ns(),
    )


def _append_events(journal: JournalWriter, rows: list[dict[str, Any]]) -> None:
    if rows:
        journal.append({STEP_VALUES: {"events": rows}})
