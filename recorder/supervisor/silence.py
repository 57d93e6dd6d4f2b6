"""Tell a training that nothing records from a script that does not train, from outside: by what processes have mapped.

A process that has torch mapped and computes is one of three. It is attached, and left a note. Or it is a fork of one that is,
with torch at the same address. Or it is not recorded: then the reason is looked for and said. Where the recorder is attached
and has seen nothing of a training, that is said too, in words that stay true for a script that only prepares data.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from ...schemas import Phase, read_breadcrumb
from ...schemas.files.json_text import json_text
from ...schemas.files.layout import SUPERVISOR_RANK, breadcrumb_path
from ...schemas.files.secrets import Redactor
from ...schemas.files.unrecorded import NO_TRAINING, REASONS, TRAINING_BEGAN, UNRECORDED, ProcessNote, process_notes
from ..storage.attempt import attempt_of
from .descendants import Descendants
from .torch_process import TorchProcess, torch_process, why_unrecorded

PERIOD_S = 40.0
"""So long a process computes with torch mapped before silence is said: within a minute of the import, looks included."""

COMPUTES = 0.1
"""Periods of CPU time that a process must have spent; on a crowded machine that takes longer than a period."""

IDLE = 0.02
"""Share of one core below which a process waits, as launchers and servers do: what it spent before is forgotten."""

COMPUTES_LONG = 0.5
"""Periods of CPU time before a process with the recorder in it is said to have shown no training."""

PATIENCE = 3
"""Periods of CPU time before a process is called unrecorded for no reason that can be seen: it may be importing torch."""

_EAGER_S = 15.0
_LOOK_EVERY_S = 5.0
"""Between two looks, after the first seconds, in which short scripts would be missed."""

_MOST_EVENTS = 16
"""Processes that are noted one by one; a launcher's children are all alike."""

_TRAINING = {Phase.BACKWARD, Phase.OPTIMIZER}
"""Not the phase of the loss: it begins after every forward with gradients, of an evaluation too."""


@dataclass(slots=True)
class _Watched:
    """A process with torch mapped; ``since`` and ``cpu_s`` begin the stretch in which it is judged."""

    process: TorchProcess
    since: float
    cpu_s: float
    latest_cpu_s: float
    told: bool = False


class SilenceWatch:
    """Looks at the process tree of a script; ``look`` returns rows of `events` for what it has said."""

    def __init__(
        self,
        run: Path,
        pid: int,
        secrets: Redactor,
        say: Callable[[str], None],
        period_s: float = PERIOD_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run = run
        self._members = Descendants(pid)
        self._secrets = secrets
        self._say = say
        self._period_s = period_s
        self._clock = clock
        self._began = clock()
        self._due = 0.0
        self._first_step = attempt_of(run).first_step
        self._seen: dict[tuple[int, float], _Watched] = {}
        self._training_seen = False
        self._waiting = False
        """Whether it was said that nothing of a training has been seen."""
        self._reasons_said: set[str] = set()
        self._events = 0

    @property
    def torch_processes(self) -> int:
        """Processes that were seen with torch loaded so far."""
        return len(self._seen)

    def look(self) -> list[dict[str, Any]]:
        """Look if it is time to, and say what is to be said."""
        now = self._clock()
        if now < self._due:
            return []
        self._due = now + (1.0 if now - self._began < _EAGER_S else min(_LOOK_EVERY_S, self._period_s))
        alive = self._watch_tree(now)
        due = [w for w in alive if self._computes(w, now)]
        self._training_seen = self._training_seen or self._training()
        if self._waiting and self._training_seen:
            self._waiting = False
            self._say("training has begun, and is recorded")
            return [_row(TRAINING_BEGAN, "training has begun, and is recorded", {})]
        if not due:
            return []
        rows: list[dict[str, Any]] = []
        notes = {note.pid: note for note in process_notes(self._run)}
        attached = self._attached(notes)
        for watched in due:
            seconds = round(now - watched.since)
            if watched.process.address not in attached:
                rows += self._unrecorded(watched, notes.get(watched.process.pid), seconds)
            elif not (self._training_seen or self._waiting) and self._has_computed_long(watched):
                self._waiting = True
                rows.append(self._told(NO_TRAINING, self._stage(), watched.process, "", seconds))
        return rows

    def end(self) -> list[dict[str, Any]]:
        """The script has ended: the process that used torch most, where nothing was recorded and nothing said so far."""
        if self._events or self._stage() != "no-training":
            return []
        notes = {note.pid: note for note in process_notes(self._run)}
        attached = self._attached(notes)
        outside = [w for w in self._seen.values() if w.process.address not in attached]
        if not outside:
            return []
        most = max(outside, key=lambda w: w.latest_cpu_s)
        note = notes.get(most.process.pid)
        reason, where = why_unrecorded(most.process, note.failure if note else None)
        if reason == "unknown":
            return []  # it may have ended while it imported torch
        return [self._event(UNRECORDED, reason, most.process, where, round(self._clock() - most.since))]

    def _watch_tree(self, now: float) -> list[_Watched]:
        """Take in what has torch mapped by now; those of them that live."""
        alive: list[_Watched] = []
        for pid in self._members.look():
            try:
                member = psutil.Process(pid)
                key = (member.pid, member.create_time())
                times = member.cpu_times()
            except psutil.Error:
                continue  # it has just ended
            cpu_s = times.user + times.system
            watched = self._seen.get(key)
            if watched is None:
                process = torch_process(member.pid)
                if process is None:
                    continue
                watched = self._seen[key] = _Watched(process, now, cpu_s, cpu_s)
            watched.latest_cpu_s = cpu_s
            alive.append(watched)
        return alive

    def _computes(self, watched: _Watched, now: float) -> bool:
        """Whether it computed for a period. A stretch in which it waited is forgotten."""
        if watched.told or now - watched.since < self._period_s:
            return False
        computed_s = watched.latest_cpu_s - watched.cpu_s
        if computed_s < COMPUTES * self._period_s:
            if computed_s < IDLE * (now - watched.since):
                watched.since, watched.cpu_s = now, watched.latest_cpu_s
            return False
        process = torch_process(watched.process.pid)
        if process is None or process.address != watched.process.address:  # it has become another program
            watched.since, watched.cpu_s = now, watched.latest_cpu_s
            watched.process = process or watched.process
            return False
        return True

    def _has_computed_long(self, watched: _Watched) -> bool:
        """Whether its own work took long: on a crowded machine imports alone take minutes."""
        return watched.latest_cpu_s - watched.cpu_s >= COMPUTES_LONG * self._period_s

    def _attached(self, notes: dict[int, ProcessNote]) -> set[str]:
        """Addresses of torch in processes that the recorder is in; their forks have it at the same ones."""
        return {
            w.process.address
            for w in self._seen.values()
            if (note := notes.get(w.process.pid)) is not None and note.failure is None
        }

    def _unrecorded(self, watched: _Watched, note: ProcessNote | None, seconds: int) -> list[dict[str, Any]]:
        reason, where = why_unrecorded(watched.process, note.failure if note else None)
        if reason == "unknown" and watched.latest_cpu_s - watched.cpu_s < PATIENCE * self._period_s:
            return []
        watched.told = True
        if self._events >= _MOST_EVENTS:
            return []
        return [self._told(UNRECORDED, reason, watched.process, where, seconds)]

    def _told(self, event: str, reason: str, process: TorchProcess, where: str, seconds: int) -> dict[str, Any]:
        row = self._event(event, reason, process, where, seconds)
        if reason not in self._reasons_said:
            self._reasons_said.add(reason)
            self._say(f"[{event}] {row['message']}")
        return row

    def _event(self, event: str, reason: str, process: TorchProcess, where: str, seconds: int) -> dict[str, Any]:
        self._events += 1
        values = {"process": process.shown(self._secrets), "seconds": seconds, "where": where}
        said = "; ".join(sentence.format_map(values) for sentence in REASONS[reason])
        return _row(event, said, {"reason": reason, "pid": process.pid, **values})

    def _positions(self) -> list[Any]:
        paths = breadcrumb_path(self._run, 0).parent.glob("*.bin")
        return [position for path in paths if (position := read_breadcrumb(path)) is not None]

    def _training(self) -> bool:
        """Whether a rank has come to a backward or an optimizer step."""
        return any(p.step > self._first_step or p.microbatch > 0 or p.phase in _TRAINING for p in self._positions())

    def _stage(self) -> str:
        """How far it has come where no training has been seen."""
        return "no-backward" if self._positions() else "no-training"


def _row(event: str, message: str, detail: dict[str, Any]) -> dict[str, Any]:
    return {
        "rank": SUPERVISOR_RANK,
        "time_ns": time.time_ns(),
        "event": event,
        "message": message,
        "detail": json_text(detail) if detail else None,
    }
