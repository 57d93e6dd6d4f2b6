"""What a rehearsal tells of a script's evaluations, which were given the batch that the training had learnt by heart."""

from pathlib import Path

import msgspec

_NAME = "evaluations.json"


class EvaluationsTold(msgspec.Struct):
    """What they were given, and what the script read in them."""

    given: int = 0
    """Evaluations that were given the batch."""
    unlike: int = 0
    """Those whose own batches hold other things."""
    samples: int = 0
    """Rows of the batch's first tensor."""
    losses: dict[str, list[tuple[int, float]]] = {}
    """Where the script reads a loss in them → (step, number)."""
    scores: dict[str, list[tuple[int, float]]] = {}
    """The same of what it calls a score: an accuracy, or how many are right."""
    printed_losses: dict[str, list[tuple[int, float]]] = {}
    """The losses of evaluations that it prints or logs, by the words before the number."""
    printed_scores: dict[str, list[tuple[int, float]]] = {}
    """The same of scores."""


def write_told(folder: Path, told: EvaluationsTold) -> None:
    """Write it anew."""
    (folder / _NAME).write_bytes(msgspec.json.encode(told))


def read_told(folder: Path) -> EvaluationsTold | None:
    """None where nothing was told."""
    try:
        return msgspec.json.decode((folder / _NAME).read_bytes(), type=EvaluationsTold)
    except (OSError, msgspec.MsgspecError):
        return None
