"""Why a process that has torch loaded is not recorded, or nothing of it yet: codes, their sentences, and the remedies.

The supervisor writes the code with its values into an event. Whoever shows it fills the sentence, in any language.
"""

from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from .layout import PROCESSES
from .safe_files import read_file

UNRECORDED = "unrecorded-process"
"""Event: a process has torch loaded, and the recorder is not in it."""

NO_TRAINING = "no-training-seen"
"""Event: the recorder is attached, the process computes, and nothing of a training has been seen in it."""

TRAINING_BEGAN = "training-began"
"""Event: training has been seen after all."""


class Reason(NamedTuple):
    """Two sentences, in which {process}, {seconds} and {where} are filled in."""

    what: str
    remedy: str


REASONS = {
    "no-run-variable": Reason(
        "process {process} has torch loaded and is not recorded: its environment has no FIRSTFAULT_RUN",
        "have its parent pass its own environment on, or put `firstfault run` around this process",
    ),
    "python-flag": Reason(
        "process {process} has torch loaded and is not recorded: it was started with {where}, which keeps firstfault out",
        "start it without {where}, or use firstfault.recorder.Recorder in the script",
    ),
    "pythonpath": Reason(
        "process {process} has torch loaded and is not recorded: its PYTHONPATH does not hold {where}",
        "have its launcher extend PYTHONPATH instead of replacing it",
    ),
    "other-sitecustomize": Reason(
        "process {process} has torch loaded and is not recorded: {where} comes before firstfault's in PYTHONPATH",
        "move that folder behind firstfault's entry: firstfault runs its sitecustomize too",
    ),
    "no-firstfault": Reason(
        "process {process} has torch loaded and is not recorded: no firstfault is installed beside its torch in {where}",
        "install firstfault[record] there, or use the interpreter that has it",
    ),
    "no-python": Reason(
        "process {process} has torch loaded and is not recorded: it uses {where} without Python",
        "only Python programs can be recorded",
    ),
    "attach-failed": Reason(
        "process {process} has torch loaded and is not recorded: attaching failed with {where}",
        "repair the installation that is named there, or report it",
    ),
    "unknown": Reason(
        "process {process} has torch loaded and is not recorded, and the reason cannot be seen from outside",
        "use firstfault.recorder.Recorder in the script, and report it",
    ),
    "no-training": Reason(
        "nothing is recorded yet: process {process} has computed for {seconds} s with torch loaded, and no forward with"
        " gradients, no backward and no optimizer step has been seen in it",
        "this is expected while data is prepared or a model is evaluated; if it trains, call Recorder.step() once per step",
    ),
    "no-backward": Reason(
        "nothing is recorded yet: process {process} has computed for {seconds} s with torch loaded; a model was called, and no"
        " backward and no optimizer step has been seen in it",
        "this is expected while a model is evaluated; if it trains, call Recorder.step() once per step",
    ),
}


class Fault(msgspec.Struct, frozen=True):
    """A part of the recorder that switched itself off, and the error that made it."""

    part: str
    error: str


class ProcessNote(msgspec.Struct, kw_only=True):
    """What a process says of the recorder in it, once torch has been imported there. ``failure``: why attaching failed;
    ``import_error``: the exception of torch's own import, where none succeeded afterwards; ``without_library``: why the C library
    does not measure tensors, where nobody left it out."""

    pid: int
    torch: str | None = None
    failure: str | None = None
    import_error: str | None = None
    faults: list[Fault] = []
    without_library: str | None = None


def process_notes(run: Path) -> list[ProcessNote]:
    """The notes of a run folder by process id. A note that was cut while it was written is left out."""
    found: list[ProcessNote] = []
    for path in (run / PROCESSES).glob("pid=*.json"):
        try:
            found.append(msgspec.json.decode(read_file(path, run), type=ProcessNote))
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue
    return sorted(found, key=lambda note: note.pid)


def values_of(detail: str | None) -> tuple[Reason, dict[str, Any]] | None:
    """The reason in an event's ``detail`` and the values for its sentences; None where it is none that is known here."""
    try:
        values = msgspec.json.decode(detail or "", type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError):
        return None
    reason = REASONS.get(str(values.get("reason")))
    filled = {name: values.get(name, "?") for name in ("process", "seconds", "where")}
    return None if reason is None else (reason, filled)
