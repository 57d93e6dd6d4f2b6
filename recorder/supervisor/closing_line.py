"""What the last line of `firstfault run` says besides the count of steps: only what was checked."""

from pathlib import Path

from ...schemas import SchemaError, read_exit
from ...schemas.files.unrecorded import UNRECORDED, process_notes, values_of
from ..storage.segments import read_rows
from .exit_record import recorded_ranks


def switched_off(run: Path) -> str | None:
    """The parts of the recorder that switched themselves off, in a clause; None where none did."""
    parts: dict[str, str] = {}
    for note in process_notes(run):
        for fault in note.faults:
            parts.setdefault(fault.part, fault.error)
    if not parts:
        return None
    named = ", ".join(f"{part} ({error})" for part, error in parts.items())
    if len(parts) == 1:
        return f"a part of the recorder switched itself off: {named}"
    return f"{len(parts)} parts of the recorder switched themselves off: {named}"


def without_library(run: Path) -> str | None:
    """That tensors were measured the slower way, and why, in a sentence; None where the C library did it, or was left out."""
    reasons = dict.fromkeys(note.without_library for note in process_notes(run) if note.without_library is not None)
    if not reasons:
        return None
    return (
        f"torch's operators measured the tensors, which takes longer than the C library does: {'; '.join(reasons)};"
        " to have it, install a C compiler and then firstfault again"
    )


def why_nothing(run: Path) -> str:
    """Why no step of a run was recorded."""
    off = switched_off(run)
    if off is not None:
        return off
    notes = process_notes(run)
    broken = next((note.import_error for note in notes if note.import_error is not None), None)
    if broken is not None and all(note.torch is None for note in notes):
        return f"importing torch failed with {broken}"
    said = _said(run)
    if said is not None:
        return said
    if recorded_ranks(run):
        return "the script ended before its first training step was complete"
    failure = next((note.failure for note in notes if note.failure is not None), None)
    if failure is not None:
        return f"the recorder could not attach to torch ({failure})"
    if notes:
        seen = "no forward with gradients, no backward and no optimizer step was seen before the script ended"
        return f"torch was imported, and {seen}"
    try:
        ended = read_exit(run)
    except SchemaError:
        ended = None
    if ended is None or ended.torch_processes is None:
        return "the recorder was attached in no process of the script"
    if ended.torch_processes:
        return "the script ended while it loaded torch, before the recorder was attached"
    return "no process of the script was seen to load torch"


def _said(run: Path) -> str | None:
    """The newest of what the supervisor said of processes that are not recorded."""
    rows = read_rows(run, "events", ["time_ns", "event", "detail"])
    said = [row for row in rows.to_pylist() if row["event"] == UNRECORDED]  # pyarrow.compute takes longer to load
    found = values_of(max(said, key=lambda row: row["time_ns"])["detail"]) if said else None
    if found is None:
        return None
    reason, values = found
    return "; ".join(sentence.format_map(values) for sentence in reason)
