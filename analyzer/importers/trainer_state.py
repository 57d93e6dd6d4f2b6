"""trainer_state.json of transformers: log_history into steps and metrics."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import ImportFileError
from .byte_streams import ByteStream
from .series import Point, put_curves
from .target import RunTarget

_CONFIG = (
    "max_steps",
    "num_train_epochs",
    "train_batch_size",
    "logging_steps",
    "eval_steps",
    "save_steps",
    "best_metric",
)
_LARGEST = 1 << 30


def import_trainer_state(path: Path, target: RunTarget, label: str) -> str:  # noqa: ARG001 # as all importers have it
    """Read the log of a Trainer into the target. Steps are the Trainer's: the first is 1. Returns what was found."""
    with ByteStream(path) as stream:
        raw = stream.read(_LARGEST)
    try:
        state: Any = json.loads(raw)
    except (ValueError, RecursionError) as e:
        raise ImportFileError(f"{path}: is no whole JSON ({e}); take the one of an earlier checkpoint") from e
    history = state.get("log_history") if isinstance(state, Mapping) else None
    if not isinstance(history, list) or not history:
        raise ImportFileError(f"{path}: has no log_history; was it written by transformers' Trainer?")
    curves: dict[str, list[Point]] = {}
    for entry in history:
        step = entry.get("step") if isinstance(entry, Mapping) else None
        if not isinstance(step, int) or not 0 <= step < 2**53:
            continue
        for name, value in entry.items():
            if name != "step" and isinstance(value, int | float) and not isinstance(value, bool):
                # the last entry has the mean loss of the whole training: no loss of that step
                shown = "train/mean_loss" if name == "train_loss" else name
                curves.setdefault(shown, []).append(Point(step, float(value)))
    target.facts["config"] = {k: state[k] for k in _CONFIG if isinstance(state.get(k), int | float)}
    return put_curves(target, path, 0, curves, "trainer_state")
