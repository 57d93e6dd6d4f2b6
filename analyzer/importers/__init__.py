"""Files that others wrote, made into a run folder: traces, snapshots, logs. One file per format; kinds are told by content."""

from collections.abc import Callable, Sequence
from pathlib import Path

from ...schemas import RunManifest
from ..errors import ImportFileError
from .curves import import_curves
from .detect import Kind
from .execution_trace import import_execution_trace
from .flight_recorder import import_dump, is_dump, read_dump, settle_end
from .folders import files_to_import
from .memory_snapshot import import_snapshot
from .memory_timeline import import_memory_timeline
from .mlflow_run import import_mlflow_run
from .pickles import read_plain_pickle
from .series import check_choices, take_evaluation_for_loss
from .target import Choices, RunTarget
from .tensorboard import import_event_file
from .text_logs import import_text_log
from .traces import import_trace
from .trainer_state import import_trainer_state
from .wandb_file import import_wandb

__all__ = ["Choices", "import_files"]


def _import_pickle(path: Path, target: RunTarget, label: str) -> str:  # noqa: ARG001 # as all importers have it
    found = read_plain_pickle(path)
    if is_dump(found):
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
    "wandb": import_wandb,
    "mlflow": import_mlflow_run,
    "execution_trace": import_execution_trace,
    "memory_timeline": import_memory_timeline,
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
    found = [files_to_import(path) for path in paths]
    left_out = [words for _, left in found for words in left]
    with RunTarget(out, choices) as target:
        sources: list[dict[str, object]] = []
        for path, label, kind in (file for files, _ in found for file in files):
            target.written_ns.append(path.stat().st_mtime_ns)
            try:
                words = _IMPORTERS[kind](path, target, label)
            except ImportFileError as e:
                if path in paths or not sources:
                    raise
                left_out.append(str(e))  # one file of a folder
                continue
            sources.append({"file": str(path), "kind": kind, "found": words})
            if done is not None:
                done(path, words)
        for words in left_out:
            target.event("file-left-out", f"{words}.")
        if left_out and done is not None:
            done(paths[0], f"{len(left_out)} left out, first {left_out[0]}")
        check_choices(target)
        take_evaluation_for_loss(target)
        settle_end(target)
        return target.finish([str(path) for path in paths], sources, version)
