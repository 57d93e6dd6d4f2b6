"""Scripts that go on by themselves where their checkpoint lies: whether such a start goes on as the start went on that saved it.

The checkpoint is the one that the first start has saved, or else the one of the rehearsed epoch. Nobody has told the script to
resume, so what differs counts only where it begins anew.
"""

import os
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from ...analyzer import Trace
from ...schemas.files.layout import RUN_JSON
from ...schemas.files.rehearsed import read_asked, read_listing
from ..text.language import say
from .preflight_facts import Fact
from .preflight_resume import resumed, state_kept

_NAME = "own checkpoint"
_READS = "SELECT * FROM checkpoints WHERE action = 'read' AND rank = 0 AND path IS NOT NULL ORDER BY time_ns"
_SAVES = (
    "SELECT path, step, counter_name, counter, epoch_name, epoch FROM checkpoints"
    " WHERE action = 'saved' AND rank = 0 AND path IS NOT NULL ORDER BY time_ns"
)


@dataclass(frozen=True, slots=True)
class Saved:
    """Files that the first start saved, by their absolute paths: the steps made by then, and when each was changed last."""

    steps: dict[str, int]
    changed: dict[str, int]

    @classmethod
    def of(cls, trace: Trace, folder: Path | None) -> "Saved":
        """Without those that were read before they were saved: the first start has begun from them itself."""
        rows = trace.sql(
            "SELECT path, max(step) FILTER (action = 'saved') AS step, min(time_ns) FILTER (action = 'saved') AS saved,"
            " min(time_ns) FILTER (action = 'read') AS first_read FROM checkpoints"
            " WHERE rank = 0 AND path IS NOT NULL GROUP BY path"
            " HAVING step IS NOT NULL AND (first_read IS NULL OR first_read > saved)"
        )
        here = (folder or Path()).absolute()
        steps = {_absolute(here, row["path"]): int(row["step"]) for row in rows.iter_rows(named=True)}
        return cls(steps, {path: _changed(path) for path in steps})

    def usable(self, asked: set[str], last: int) -> bool:
        """Whether a file is as it was saved, is looked for by the script, and was followed by a step."""
        return any(
            path in asked and step <= last and self.changed[path] and _changed(path) == self.changed[path]
            for path, step in self.steps.items()
        )


def looked_for(rehearsed: Path, saved: Saved) -> tuple[bool, bool]:
    """Whether the script has looked in vain for a file that its first start saved, and for one that the rehearsal saved."""
    asked = read_asked(rehearsed)
    return bool(asked & saved.steps.keys()), bool(asked & read_listing(rehearsed).keys())


def went_on(before: Path, again: Path, loaded: Path, rehearsed: Path | None, folder: Path | None) -> list[Fact]:
    """``before``: the start that saved; ``again``: the one whose epochs were rehearsed; ``loaded``: the start that finds the
    checkpoint. ``rehearsed``: the folder of its checkpoints, where one of those is loaded."""
    if not (loaded / RUN_JSON).exists():
        return []
    here = (folder or Path()).absolute()
    with Trace(loaded) as after, Trace(before) as trace:
        read = after.sql(_READS)
        made = after.sql("SELECT count(*) AS n FROM steps WHERE completed").item()
        error = after.exit.exception if after.exit is not None else None
        saves = trace.sql(_SAVES)
        own = {_absolute(here, r["path"]): r for r in saves.iter_rows(named=True)}
        if rehearsed is not None:  # that of the first end
            own = {_absolute(here, r["path"]): r for r in reversed(saves.rows(named=True))}
        found = [r for r in read.iter_rows(named=True) if _absolute(here, r["path"]) in own]
        if not made:
            loading = bool(found) or (error is not None and "Unpickling" in error.type)
            if rehearsed is not None or error is None or not loading or "rehearsal" in error.message:
                return []  # it is done, needs files beside it, or refuses to write over what is there
            words = say("A start that finds the script's own checkpoint raises {error}", error=_words(error))
            return [("resume", _NAME, "failed", words)]
        if not found:
            return []
        since = int(own[_absolute(here, found[-1]["path"])]["step"])
        state = any(r["optimizer_entries"] for r in found)
        counted = any(r["epoch"] is not None or r["counter"] is not None for r in found)
        forgotten = _forgotten(after) if state else []
        counts = _counts_on(trace, again, after, found, since, rehearsed is not None) if state else []
    if not state and not counted:
        words = say("The script loads weights alone from its own checkpoint, and begins anew otherwise.")
        return [("resume", _NAME, "passed", words)]
    facts = resumed(before, loaded, since, by_itself=True)
    if not state:  # it keeps none: nothing was lost that it has saved
        facts = [(a, n, "doubtful" if n == "optimizer's state not restored" else o, w) for a, n, o, w in facts]
    if rehearsed is not None:
        facts += state_kept(rehearsed)
    if all(f[2] == "passed" for f in facts):
        facts += forgotten
    return [*facts, *counts]


def saved_at(before: Path, loaded: Path, folder: Path | None) -> int | None:
    """Steps that ``before`` had made when it first saved a file that ``loaded`` has read; None where it read none of them."""
    if not (loaded / RUN_JSON).exists():
        return None
    here = (folder or Path()).absolute()
    with Trace(loaded) as after, Trace(before) as trace:
        read = {_absolute(here, r["path"]) for r in after.sql(_READS).iter_rows(named=True)}
        saves = trace.sql(_SAVES).iter_rows(named=True)
        return next((int(r["step"]) for r in saves if _absolute(here, r["path"]) in read), None)


def _forgotten(after: Trace) -> list[Fact]:
    """Optimizer state that lies in the checkpoint, is no empty one, and is put into no optimizer."""
    put = after.sql("SELECT count(*) AS n FROM checkpoints WHERE action = 'optimizer'").item()
    if put:
        return []
    words = say(
        "The checkpoint that the script loads by itself holds optimizer state, but it is put into no optimizer."
    )
    return [("resume", "optimizer's state not restored", "doubtful", words)]


def _counts_on(
    trace: Trace, again: Path, after: Trace, found: list[dict[str, Any]], since: int, at_an_end: bool
) -> list[Fact]:
    """Whether the counter in the checkpoint goes on: one that grows with each save in a start from scratch is larger in the
    first save after loading."""
    if not (again / RUN_JSON).exists():
        return []
    with Trace(again) as other:
        for kind in ("counter", "epoch"):
            if kind == "epoch" and not at_an_end and not _ends_before(trace, since):
                continue  # saved within an epoch, which is made again
            for row in found:
                name, was, path = row[f"{kind}_name"], row[kind], row["path"]
                grows = _values(other, kind, path, name)
                now = _values(after, kind, path, name)
                if was is None or not now or len(grows) < 2 or any(b <= a for a, b in pairwise(grows)):
                    continue
                if now[0] > was:
                    return []
                words = say(
                    "The script loads {name} = {was} from its own checkpoint, and the next that it saves has {name} = {now}: it"
                    " begins to count anew.",
                    name=name,
                    was=was,
                    now=now[0],
                )
                return [("resume", "counter not restored", "doubtful", words)]
    return []


def _values(trace: Trace, kind: str, path: str, name: str | None) -> list[int]:
    """What a counter was in each save to a path."""
    rows = trace.sql(_SAVES).rows(named=True)
    return [r[kind] for r in rows if r["path"] == path and r[f"{kind}_name"] == name and r[kind] is not None]


def _ends_before(trace: Trace, since: int) -> bool:
    """Whether a pass over the training data ends right before a step."""
    epochs = trace.sql(
        "SELECT step, max(epoch) AS epoch FROM batches WHERE rank = 0 AND phase <> 'eval' AND loader_id IS NOT NULL"
        " AND step BETWEEN $since - 1 AND $since GROUP BY step ORDER BY step",
        {"since": since},
    )["epoch"].to_list()
    return len(epochs) == 2 and None not in epochs and epochs[0] < epochs[1]


def _words(error: Any) -> str:
    return f"{error.type}: {error.message}"[:200]


def _absolute(here: Path, path: str) -> str:
    return os.path.abspath(here / path)  # noqa: PTH100 — as the script spells it, links and all


def _changed(path: str) -> int:
    """When a file was changed last, in nanoseconds; 0: there is none."""
    try:
        return Path(path).stat().st_mtime_ns
    except OSError:
        return 0
