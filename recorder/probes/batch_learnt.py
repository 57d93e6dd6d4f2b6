"""The training learns its first batch by heart, and its own evaluation is then given that batch.

The first pass over the data has one batch, the second has the same batch again and again, and each later one has it once.
Evaluations get it too, as their only batch. So the evaluation's loss is seen before and after the batch was learnt, computed by
the script's own code. Nothing stays of it, as of every rehearsal.
"""

import json
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .last_batch import LastBatch
from .script_end import PassesShortened
from .stage import replaced, tensors_of

TOLD = "evaluations.json"
"""File in which stands how many evaluations were given the batch, and how many could not be."""


class _AsItIs(LastBatch):
    """No batch is made smaller here."""

    @staticmethod
    def can_shorten(iterator: Any) -> bool:
        del iterator
        return False


class BatchLearnt(PassesShortened):
    """``times``: how often the second pass has the batch. ``own``: a folder of ours, in which it is told what was done."""

    def __init__(self, now: Callable[[], int], step: int, values: dict[str, Any]) -> None:
        super().__init__(now, step, values)
        self.shorter = _AsItIs()
        self._batch: Any = None
        self._learning: weakref.ref[Any] | None = None
        """The pass that has the batch again and again."""
        self._evaluated: weakref.WeakSet[Any] = weakref.WeakSet()
        self._told = {"given": 0, "unlike": 0}

    def _fed(self, iterator: Any, following: Callable[[Any], Any]) -> Any:
        batch = following(iterator)
        if self._batch is None:
            self._batch = _copied(batch)
        return batch

    def _later(self, iterator: Any, following: Callable[[Any], Any]) -> Any:
        if not self.ended:
            return following(iterator)  # an evaluation before any training
        if not torch.is_grad_enabled():
            return self._evaluates(iterator, following)
        if iterator._dataset is not self._data:
            return following(iterator)
        if self._learning is None:
            self._learning = weakref.ref(iterator)
        given = self._given[iterator] = self._given.get(iterator, 0) + 1
        if given >= (self.values["times"] if self._learning() is iterator else 1):
            self._over.add(iterator)
        return _copied(self._batch)

    def _evaluates(self, iterator: Any, following: Callable[[Any], Any]) -> Any:
        if iterator in self._evaluated:
            raise StopIteration
        batch = following(iterator)
        like = _alike(batch, self._batch)
        self._told["given" if like else "unlike"] += 1
        Path(self.values["own"], TOLD).write_text(json.dumps(self._told))
        if not like:
            return batch
        self._evaluated.add(iterator)
        return _copied(self._batch)


def _copied(batch: Any) -> Any:
    return replaced(batch, lambda t: t.detach().clone())


def _alike(one: Any, other: Any) -> bool:
    """Whether two batches hold tensors of the same kinds at the same places; their sizes may differ."""
    return type(one) is type(other) and _kinds(one) == _kinds(other)


def _kinds(batch: Any) -> list[tuple[torch.dtype, int]]:
    found: list[Tensor] = tensors_of(batch)
    return [(t.dtype, t.dim()) for t in found]
