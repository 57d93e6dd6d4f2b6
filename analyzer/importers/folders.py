"""Which files of a folder are imported: all that are known, but of several logs of the same numbers one kind alone."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ..errors import ImportFileError
from .curve_names import EVALUATION
from .detect import Kind, kind_of
from .mlflow_run import is_mlflow_run


class FoundFile(NamedTuple):
    """A file to import. ``label`` is what its curves are called before their names."""

    path: Path
    label: str
    kind: Kind


_NO_DATA = frozenset(
    (
        *(".py", ".pyc", ".sh", ".md", ".rst", ".html", ".css", ".js", ".ts", ".yaml", ".yml", ".toml"),
        *(".ini", ".cfg", ".pt", ".pth", ".ckpt", ".bin", ".safetensors", ".onnx", ".h5", ".npy", ".npz"),
        *(".png", ".jpg", ".jpeg", ".gif", ".svg", ".pdf", ".mp4", ".wav", ".parquet", ".arrow", ".so", ".o"),
        *(".c", ".cc", ".cpp", ".cu", ".h", ".lock", ".ipynb", ".zip", ".tar", ".model"),
    )
)
"""Suffixes of files that hold no curves, profiles or dumps: they are counted, not read."""

_SAME_NUMBERS: tuple[Kind, ...] = ("tensorboard", "wandb", "mlflow", "trainer_state", "curves", "text_log")
"""Kinds that hold the curves of a run, the fullest first: a run that several loggers wrote down is taken from one."""

_MOST = 20_000
"""Files that a folder may hold."""


def files_to_import(path: Path) -> tuple[list[FoundFile], list[str]]:
    """A file itself; of a folder the files that are known. Beside them what is left out, a sentence each.

    Curves of a file below the folder that holds all are called by that folder first, as TensorBoard keeps curves of one tag
    apart. Raises ImportFileError where nothing is known.
    """
    if not path.exists():
        raise ImportFileError(f"{path}: no such file; check the path")
    if not path.is_dir():
        return [FoundFile(path, path.parent.name if path.parent.name.lower() in EVALUATION else "", kind_of(path))], []
    if is_mlflow_run(path):
        return [FoundFile(path, "", "mlflow")], []
    known: list[tuple[Path, Kind]] = []
    left: list[str] = []
    unread: Counter[str] = Counter()
    for file in _walk(path):
        if file.is_dir():
            known.append((file, "mlflow"))
        elif file.suffix.lower() in _NO_DATA:
            unread[file.suffix.lower()] += 1
        else:
            try:
                known.append((file, kind_of(file)))
            except ImportFileError as e:
                left.append(str(e).split(";", maxsplit=1)[0])
    if unread:
        shown = ", ".join(f"{n} {suffix}" for suffix, n in unread.most_common(8))
        left.append(f"{path}: {unread.total()} files that hold no curves, profiles or dumps ({shown})")
    if not known:
        raise ImportFileError(
            f"{path}: no file in this folder is known ({len(left)} were looked at); name the files to import"
        )
    taken, more = _one_log(known)
    above = Path(os.path.commonpath([file.parent for file, _ in taken]))
    labels = {file: "" if file.parent == above else file.parent.relative_to(above).as_posix() for file, _ in taken}
    return [FoundFile(file, labels[file] if kind == "tensorboard" else "", kind) for file, kind in taken], left + more


def _walk(folder: Path) -> Iterator[Path]:
    """Files below a folder in their order, folders of MLflow runs as one; nothing hidden, no links out of it."""
    count = 0
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f not in {"__pycache__", "node_modules"})
        if is_mlflow_run(Path(here)):
            folders.clear()
            yield Path(here)
            continue
        for name in sorted(files):
            count += 1
            if count > _MOST:
                raise ImportFileError(f"{folder}: holds more than {_MOST} files; name the folder of one run")
            file = Path(here) / name
            if not name.startswith(".") and file.is_file():
                yield file


def _one_log(known: list[tuple[Path, Kind]]) -> tuple[list[tuple[Path, Kind]], list[str]]:
    """The files without those that hold the same curves again: of the kinds of logs the first, of checkpoints the last."""
    kinds = [kind for kind in _SAME_NUMBERS if any(k == kind for _, k in known)]
    runs = [file for file, kind in known if kind == "mlflow"]
    if kinds and kinds[0] == "mlflow" and len(runs) > 1:
        names = ", ".join(str(run) for run in runs[:3])
        raise ImportFileError(f"{len(runs)} MLflow runs are in this folder ({names} …); name the folder of one of them")
    states = [file for file, kind in known if kind == "trainer_state"]
    last = max(states, key=lambda file: file.stat().st_size, default=None)
    taken: list[tuple[Path, Kind]] = []
    left: list[str] = []
    for file, kind in known:
        if kind in kinds[1:]:
            left.append(f"{file}: may hold the curves that the {kinds[0]} files hold")
        elif kind == "trainer_state" and file != last:
            left.append(f"{file}: an earlier state of {last}")
        else:
            taken.append((file, kind))
    return taken, left
