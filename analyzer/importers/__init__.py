"""Files that others wrote, made into a run folder: traces, snapshots, logs. One file per format; kinds are told by content."""

from collections.abc import Callable, Sequence
from pathlib import Path

from ...schemas import RunManifest
from ..errors import ImportFileError
from .detect import Kind, kind_of
from .target import RunTarget
from .traces import import_trace

__all__ = ["import_files"]

_IMPORTERS: dict[Kind, Callable[[Path, RunTarget], str]] = {
    "trace": import_trace,
}


def import_files(
    paths: Sequence[Path], out: Path, version: str, *, done: Callable[[Path, str], None] | None = None
) -> RunManifest:
    """Make one run folder of these files; traces of several ranks become ranks of one run. ``done`` is called with each file
    and what was found in it.

    Raises ImportFileError naming the file and the next step; then nothing is left behind.
    """
    found: list[tuple[Path, Kind]] = [
        (path, kind_of(path)) for path in (inner for path in paths for inner in _files(path))
    ]
    with RunTarget(out) as target:
        sources: list[dict[str, object]] = []
        for path, kind in found:
            words = _IMPORTERS[kind](path, target)
            sources.append({"file": str(path), "kind": kind, "found": words})
            if done is not None:
                done(path, words)
        return target.finish([str(path) for path in paths], sources, version)


_IN_FOLDERS = ("*.tfevents.*", "trainer_state.json", "*.pt.trace.json", "*.pt.trace.json.gz")


def _files(path: Path) -> list[Path]:
    """A file itself; of a folder the files in it whose names say what they are."""
    if not path.exists():
        raise ImportFileError(f"{path}: no such file; check the path")
    if not path.is_dir():
        return [path]
    inside = sorted({file for pattern in _IN_FOLDERS for file in path.rglob(pattern) if file.is_file()})
    if not inside:
        raise ImportFileError(
            f"{path}: no event files, traces or trainer_state.json in this folder; name the files to import"
        )
    return inside
