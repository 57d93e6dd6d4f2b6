"""The training learns its first batch by heart, and its own evaluation is then given that batch.

The first pass over the data has one batch, the second has the same batch again and again, and each later one has it once.
Evaluations get it too, as their only batch. So the evaluation's loss is seen before and after the batch was learnt, computed by
the script's own code. Nothing stays of it, as of every rehearsal.
"""

import builtins
import functools
import linecache
import logging
import re
import sys
import weakref
from collections.abc import Callable
from math import isfinite
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from ...schemas.files.evaluations_told import EvaluationsTold, write_told
from ..script.frames import outside, script_place
from ..script.number_words import A_LOSS, A_SCORE
from ..script.statements import assigned
from ..session.patches import Patches
from .last_batch import LastBatch
from .script_end import PassesShortened
from .stage import replaced, tensors_of

_READS = ("item", "__float__", "__int__")
_VARIABLE = re.compile(r"\w+")
_MOST_PLACES = 16
_LONGEST = 2_000
"""Letters of a printed text that are read: a generated story has no scores at its end."""
_FOLLOWS = 0.5
"""Share of a batch in the averages of batch norm: after a dozen steps nothing of earlier weights is left."""
_LOSSES = re.compile(A_LOSS.pattern + r"|(^|_|\b)l\b", re.IGNORECASE)
_SCORES = re.compile(A_SCORE.pattern + r"|hit|\beq\(|dice|\biou|\bf1|\bauc", re.IGNORECASE)
_LABELLED = re.compile(r"([A-Za-z][\w@ /-]*?)[\"']?[ \t]*[:=]?[ \t]*([-+]?\d+\.\d+(?:[eE][-+]?\d+)?)")
_PRINTED_SCORE = re.compile(
    r"(?:^|[\W_])(?:acc|accuracy|max_?f1|f1|auc|auroc|dice|iou|miou|map|bleu|recall|precision|mrr|ndcg|hits?|psnr|ssim|score)"
    r"(?:$|[\W_\d])"
)
_OF_EVALUATION = re.compile(r"val|test|dev|eval")
_OF_TRAINING = re.compile(r"train|best|final|(?:^|[\W_])tr(?:$|[\W_])")


def printed_numbers(text: str) -> list[tuple[str, float]]:
    """Numbers with a decimal point in a printed line, each with the words in front of it."""
    return [(" ".join(label.split()[-3:]), float(number)) for label, number in _LABELLED.findall(text[:_LONGEST])]


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
        self._told = EvaluationsTold()
        self._in_it = False
        """Whether an evaluation has been given the batch, and no training step has begun since."""
        self._places: dict[tuple[Any, int], list[tuple[int, float]] | None] = {}

    def install(self, patches: Patches) -> None:
        """The same, and what reads numbers."""
        super().install(patches)
        for name in _READS:
            patches.wrap(torch.Tensor, name, self._reader)
        patches.wrap(builtins, "print", self._printer)
        patches.wrap(logging.Logger, "handle", self._logger)

    def _reader(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def read(tensor: Any) -> Any:
            number = original(tensor)
            if self._in_it and not tensor.requires_grad and type(number) in {int, float} and isfinite(number):
                self._note(outside(sys._getframe(1)), float(number))
            return number

        return read

    def _forward_begins(self, *call: Any) -> None:
        """The same, and have the averages of batch norm follow: trained on one batch they lag behind weights that move fast."""
        super()._forward_begins(*call)
        norm = call[0]
        if self.ended and isinstance(norm, _BatchNorm) and norm.training and norm.momentum:
            norm.momentum = max(norm.momentum, _FOLLOWS)

    def _printer(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def printed(*values: Any, **kwargs: Any) -> None:
            original(*values, **kwargs)
            if self._in_it:
                self._note_text(" ".join(map(str, values)))

        return printed

    def _logger(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def handle(logger: Any, record: logging.LogRecord) -> None:
            original(logger, record)
            if self._in_it:
                self._note_text(record.getMessage())

        return handle

    def _note_text(self, text: str) -> None:
        for label, number in printed_numbers(text):
            words = label.lower()
            if _OF_TRAINING.search(words):
                continue
            if _PRINTED_SCORE.search(words):
                found = self._told.printed_scores
            elif A_LOSS.search(words) and _OF_EVALUATION.search(words):
                found = self._told.printed_losses
            else:
                continue
            if label in found or len(found) < _MOST_PLACES:
                found.setdefault(label, []).append((self.now(), number))

    def _note(self, frame: FrameType | None, number: float) -> None:
        if frame is None:
            return
        key = (frame.f_code, frame.f_lasti)
        if key not in self._places and len(self._places) < _MOST_PLACES:
            self._places[key] = self._numbers_of(frame)
        if (numbers := self._places.get(key)) is not None:
            numbers.append((self.now(), number))

    def _numbers_of(self, frame: FrameType) -> list[tuple[int, float]] | None:
        """Where the numbers go that are read here; None for what is neither a loss nor a score."""
        place = script_place(frame)
        if place is None or place.code is not frame.f_code:
            return None
        where, text = place.words()
        file, line = frame.f_code.co_filename, frame.f_lineno
        variable = _VARIABLE.match(text or "")
        made = assigned(file).get((place.code.co_name, variable[0])) if variable else None
        for words in (text, made, linecache.getline(file, line)):
            loss, score = _LOSSES.search(words or ""), _SCORES.search(words or "")
            if bool(loss) != bool(score):
                return (self._told.losses if loss else self._told.scores).setdefault(where, [])
        return None

    def _fed(self, iterator: Any, following: Callable[[Any], Any]) -> Any:
        batch = following(iterator)
        if self._batch is None:
            self._batch = _copied(batch)
            self._told.samples = next((len(t) for t in tensors_of(batch) if t.dim()), 0)
        return batch

    def _later(self, iterator: Any, following: Callable[[Any], Any]) -> Any:
        if not self.ended:
            return following(iterator)  # an evaluation before any training
        if not torch.is_grad_enabled():
            return self._evaluates(iterator, following)
        if iterator._dataset is not self._data:
            return following(iterator)
        self._tell()
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
        if not _alike(batch, self._batch):
            self._told.unlike += 1
            return batch
        self._told.given += 1
        self._in_it = True
        self._evaluated.add(iterator)
        return _copied(self._batch)

    def remove_made(self) -> None:
        """The same, and tell what is not told yet."""
        self._tell()
        super().remove_made()

    def _tell(self) -> None:
        self._in_it = False
        if self._told.given or self._told.unlike:
            write_told(Path(self.values["own"]), self._told)


def _copied(batch: Any) -> Any:
    return replaced(batch, lambda t: t.detach().clone())


def _alike(one: Any, other: Any) -> bool:
    """Whether two batches hold tensors of the same kinds at the same places; their sizes may differ."""
    return type(one) is type(other) and _kinds(one) == _kinds(other)


def _kinds(batch: Any) -> list[tuple[torch.dtype, int]]:
    found: list[Tensor] = tensors_of(batch)
    return [(t.dtype, t.dim()) for t in found]
