"""The dictionaries that transformers' Trainer prints, between progress bars: `{'loss': 0.5, 'grad_norm': 1.2, 'epoch': 0.36}`.

The dictionary has no step. It is read off the progress bar that stands before it, where one bar fits all dictionaries.
Version 5 prints numbers as texts.
"""

import re
from collections.abc import Iterable
from itertools import pairwise

from ..records import Record
from .log_format import NUMBER, LogFormat, number

_DICT = re.compile(r"\{'[^{}]*\}")
_PAIR = re.compile(rf"'([^']+)': '?({NUMBER})'?(?=[,}}])")
_BAR = re.compile(r"(?<![\d/])(\d+)/(\d+) \[\d")
_LINE = re.compile(r"\{'(?:loss|eval_|train_runtime|[\w/]*reward|[\w/]+loss)[^{}]*'epoch': ")


class _Trainer:
    def __init__(self) -> None:
        self._bars: dict[int, int] = {}
        self._found: list[tuple[Record, dict[int, int]]] = []

    def take(self, line: str) -> Iterable[Record]:
        at = 0
        for found in _DICT.finditer(line):
            self._find_progress_bars(line[at : found.start()])
            at = found.end()
            record: Record = {name: number(value) for name, value in _PAIR.findall(found[0])}
            if "epoch" not in record:
                continue
            if "train_runtime" in record and "train_loss" in record:  # the mean of the whole training
                record["train/mean_loss"] = record.pop("train_loss")
            self._found.append((record, dict(self._bars)))
        self._find_progress_bars(line[at:])
        return ()

    def _find_progress_bars(self, text: str) -> None:
        for position, total in _BAR.findall(text):
            self._bars[int(total)] = int(position)

    def end(self) -> Iterable[Record]:
        total = self._training_bar()
        known = [(bars[total], r["epoch"]) for r, bars in self._found if total in bars and r["epoch"]] if total else []
        an_epoch = max(position / epoch for position, epoch in known) if known else 0.0
        for record, bars in self._found:
            if total is not None:  # of a dictionary before the first bar the epoch tells the step
                record["step"] = bars.get(total, round(record["epoch"] * an_epoch))
            yield record

    def _training_bar(self) -> int | None:
        """The length of the bar that moves on from each logged loss to the next; the first losses may stand before it."""
        losses = [bars for record, bars in self._found if "loss" in record]
        totals: set[int] = set().union(*losses) if losses else set()
        for total in sorted(totals, reverse=True):
            known = [bars[total] for bars in losses if total in bars]
            if 2 * len(known) > len(losses) and all(a < b for a, b in pairwise(known)):
                return total
        return None


FORMAT = LogFormat(
    "lines of transformers' Trainer",
    _LINE,
    _Trainer,
    "progress bars without a dictionary, the configuration, texts inside the dictionaries",
)
