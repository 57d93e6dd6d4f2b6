"""Leave a note in the run folder that the recorder is in this process, that it could not get in, or which part of it failed.

The supervisor and readers of a run without steps look at it. Needs only Python's own modules: it must work where whatever else
the recorder needs is what is broken.
"""

import contextlib
import json
import os
import zlib
from pathlib import Path
from typing import Any

FOLDER = "processes"
"""As in schemas.layout, which is not imported here: it would load pyarrow."""


def note_process(
    run: Path,
    *,
    torch: str | None = None,
    failure: str | None = None,
    import_error: str | None = None,
    fault: tuple[str, str] | None = None,
    without_library: str | None = None,
) -> None:
    """Write the note of this process, or add to it. A folder that does not take it loses the note and nothing else."""
    path = _path(run)
    with contextlib.suppress(OSError):
        try:
            note: dict[str, Any] = json.loads(path.read_bytes())
        except (OSError, ValueError):
            note = {"pid": os.getpid(), "torch": None, "failure": None, "import_error": None, "faults": []}
        note["torch"] = torch or note["torch"]
        note["failure"] = failure or note["failure"]
        note["import_error"] = None if torch else import_error or note["import_error"]
        if without_library is not None:
            note["without_library"] = without_library
        if fault is not None:
            note["faults"].append({"part": fault[0], "error": fault[1]})
        path.parent.mkdir(exist_ok=True)
        unfinished = path.with_suffix(".tmp")
        note.pop("crc32", None)
        crc = zlib.crc32(json.dumps(note, separators=(",", ":")).encode())  # as schemas/files/checksums.py computes it
        unfinished.write_text(json.dumps({**note, "crc32": f"{crc:08x}"}), "utf-8")
        unfinished.replace(path)


def withdraw_note(run: Path) -> None:
    """Remove the note of a process that had nothing to do with the training, such as a worker of a loader."""
    with contextlib.suppress(OSError):
        _path(run).unlink(missing_ok=True)


def _path(run: Path) -> Path:
    return run / FOLDER / f"pid={os.getpid()}.json"
