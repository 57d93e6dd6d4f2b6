"""What is known of processes that were not recorded, and of parts of the recorder that failed before the first step."""

from ...schemas.files.unrecorded import NO_TRAINING, TRAINING_BEGAN, UNRECORDED, process_notes, values_of
from ..language import say
from ..reading.trace import Trace

_SQL = """
SELECT event, detail FROM events WHERE event IN ($unrecorded, $waiting)
AND (event = $unrecorded OR NOT EXISTS (FROM events WHERE event = $began)) ORDER BY time_ns
"""


def unrecorded(trace: Trace, *, steps: int) -> list[str]:
    """Sentences with reason and remedy, none where all is as it should be. ``steps`` is how many were recorded."""
    names = {"unrecorded": UNRECORDED, "waiting": NO_TRAINING, "began": TRAINING_BEGAN}
    why: list[str] = []
    for row in trace.rows(_SQL, names):
        found = values_of(row["detail"])
        if found is not None and (row["event"] == UNRECORDED or not steps):
            why.append(say("; ").join(say(sentence, **found[1]) for sentence in found[0]))
    return list(dict.fromkeys(why)) if steps else list(dict.fromkeys(why + _empty(trace, told=bool(why))))


def _empty(trace: Trace, *, told: bool) -> list[str]:
    """Why there is no step, as far as it was checked; of files that others wrote nothing is known."""
    if trace.manifest.options.get("imported"):
        return []
    notes = process_notes(trace.path)
    why = [
        say(
            "part {part} of the recorder switched itself off ({error}); please report it with this line",
            part=fault.part,
            error=fault.error,
        )
        for note in notes
        for fault in note.faults
    ]
    why += [
        say(
            "the recorder could not attach to torch ({error}); repair the installation that is named there, or report it",
            error=note.failure,
        )
        for note in notes
        if note.failure is not None
    ]
    if not any(note.torch for note in notes):
        why += [
            say("importing torch failed with {error}; repair that installation", error=note.import_error)
            for note in notes
            if note.import_error is not None
        ]
    if why or told:
        return why
    if trace.has("ranks"):
        return [
            say("the script ended before its first training step was complete; let it train at least one step")
            if trace.exit is not None
            else say("the first training step is not complete yet")
        ]
    if notes:
        return [
            say(
                "torch was imported, and no forward with gradients, no backward and no optimizer step was seen; a script that"
                " only evaluates leaves no step, and one that trains by other means calls Recorder.step()"
            )
        ]
    looked = trace.exit.torch_processes if trace.exit is not None else None
    if looked:
        return [
            say("the script ended while it loaded torch, before the recorder was attached; let it get past its imports")
        ]
    if looked == 0:
        return [
            say(
                "no process of the script was seen to load torch; put `firstfault run` in front of the command that trains"
            )
        ]
    return []
