"""What an evaluation gives to its loss: probabilities where the loss wants logits, for instance.

No graph stands behind a loss without gradients, so its input is looked at itself. Loss modules that the script calls are seen;
functions are not.
"""

from collections import Counter
from typing import Any

import torch
from torch import Tensor, nn

from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Watch
from ..tensors.moments import LATE_DEVICES, measurable

_MOST_LOOKS = 12
"""Calls of one kind of loss that are looked at."""
_MOST_ROWS = 256
_FEWEST = 4
"""Rows or numbers below which a call shows nothing."""


class EvaluatedLosses(Watch):
    """Writes an event for each of the first calls of a loss that takes logits, in evaluations."""

    name = "evaluated-losses"
    writes = ("events:evaluated-loss",)

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._looks: Counter[str] = Counter()

    def listen(self, signals: Signals) -> None:
        """Look at what losses are given."""
        signals.evaluated_loss.connect(self.name, self._look)

    def _look(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        kind = type(module).__name__  # a class of the script's own may take what it likes
        given = args[0] if args else None
        if (
            type(module) not in {nn.CrossEntropyLoss, nn.BCEWithLogitsLoss}
            or self._looks[kind] >= _MOST_LOOKS
            or not isinstance(given, Tensor)
            or not given.is_floating_point()
            or not measurable(given)
            or given.device.type in LATE_DEVICES  # to read a number makes the host wait
        ):
            return
        with torch.no_grad():
            found = _of_rows(given) if isinstance(module, nn.CrossEntropyLoss) else _of_numbers(given)
        if found is not None:
            self._looks[kind] += 1
            self.session.rows.event(
                "evaluated-loss", f"{kind} of an evaluation was given numbers", detail={"loss": kind, **found}
            )


def _of_rows(given: Tensor) -> dict[str, float] | None:
    """Extremes of scores of classes, and how far the sum of a sample's scores is from one at most."""
    if given.dim() < 2 or given.shape[1] < 2:  # scores of one class sum to one by themselves
        return None
    rows = given.detach().movedim(1, -1).reshape(-1, given.shape[1])[:_MOST_ROWS].double()
    if len(rows) < _FEWEST or not bool(rows.isfinite().all()):
        return None
    off = (rows.sum(1) - 1).abs().max()
    return {
        "rows": len(rows),
        "classes": rows.shape[1],
        "low": float(rows.min()),
        "high": float(rows.max()),
        "off_one": float(off),
    }


def _of_numbers(given: Tensor) -> dict[str, float] | None:
    numbers = given.detach().reshape(-1)[: _MOST_ROWS * _FEWEST].double()
    if len(numbers) < _FEWEST or not bool(numbers.isfinite().all()):
        return None
    return {"rows": len(numbers), "low": float(numbers.min()), "high": float(numbers.max())}
