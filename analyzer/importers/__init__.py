"""Files that others wrote, made into a run folder: traces, snapshots, logs. One file per format; kinds are told by content."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from ...schemas import RunManifest
from ..errors import ImportFileError
from .curves import import_curves
from .detect import Kind, kind_of
from .flight_recorder import import_dump, read_dump, settle_end
from .memory_snapshot import import_snapshot
from .pickles import read_plain_pickle
from .series import check_choices
from .target import Choices, RunTarget
from .tensorboard import import_event_file
from .text_logs import import_text_log
from .traces import import_trace
from .trainer_state import import_trainer_state

__all__ = ["Choices", "import_files"]


def _import_pickle(path: Path, target: RunTarget, label: str) -> str:  # noqa: ARG001 # as all importers have it
    found = read_plain_pickle(path)
    if isinstance(found, dict) and "entries" in found:
        return import_dump(path, found, target)
    return import_snapshot(path, found, target)


def _import_json_dump(path: Path, target: RunTarget, label: str) -> str:  # noqa: ARG001 # as above
    return import_dump(path, read_dump(path), target)


_IMPORTERS: dict[Kind, Callable[[Path, RunTarget, str], str]] = {
    "trace": import_trace,
    "pickle": _import_pickle,
    "flight_recorder": _import_json_dump,
    "curves": import_curves,
    "text_log": import_text_log,
    "tensorboard": import_event_file,
    "trainer_state": import_trainer_state,
}


def import_files(
    paths: Sequence[Path],
    out: Path,
    version: str,
    *,
    choices: Choices | None = None,
    done: Callable[[Path, str], None] | None = None,
) -> RunManifest:
    """Make one run folder of these files; traces of several ranks become ranks of one run. ``done`` is called with each file
    and what was found in it; ``choices`` say which columns are the loss, the step, a learning rate or a metric.

    Raises ImportFileError naming the file and the next step; then nothing is left behind.
    """
    named = [inner for path in paths for inner in _files(path)]
    found: list[tuple[Path, str, Kind]] = [(path, label, kind_of(path)) for path, label in named]
    with RunTarget(out, choices) as target:
        sources: list[dict[str, object]] = []
        for path, label, kind in found:
            target.written_ns.append(path.stat().st_mtime_ns)
            words = _IMPORTERS[kind](path, target, label)
            sources.append({"file": str(path), "kind": kind, "found": words})
            if done is not None:
                done(path, words)
        check_choices(target)
        settle_end(target)
        return target.finish([str(path) for path in paths], sources, version)


_IN_FOLDERS = ("*.tfevents.*", "trainer_state.json", "*.pt.trace.json", "*.pt.trace.json.gz")


_EVALUATIONS = ("val", "valid", "validation", "eval", "evaluation", "test", "dev")


def _files(path: Path) -> list[tuple[Path, str]]:
    """A file itself; of a folder the files in it whose names say what they are. Beside each what its curves are called before
    their names: the folder below the one that holds all, since TensorBoard keeps curves of one tag apart so."""
    if not path.exists():
        raise ImportFileError(f"{path}: no such file; check the path")
    if not path.is_dir():
        return [(path, path.parent.name if path.parent.name.lower() in _EVALUATIONS else "")]
    inside = sorted({file for pattern in _IN_FOLDERS for file in path.rglob(pattern) if file.is_file()})
    if not inside:
        raise ImportFileError(
            f"{path}: no event files, traces or trainer_state.json in this folder; name the files to import"
        )
    above = Path(os.path.commonpath([file.parent for file in inside]))
    return [(file, "" if file.parent == above else file.parent.relative_to(above).as_posix()) for file in inside]
