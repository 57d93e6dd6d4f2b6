"""YOLO's terminal: a line of names, `Epoch GPU_mem box_loss cls_loss … Instances Size`, and a bar with the numbers under it.

What a bar says on its way is a running mean: only its last words count. A step is an epoch.
"""

import re
from collections.abc import Iterable

from ..records import Record
from .log_format import NUMBER, LogFormat, number

_NAMES = re.compile(r"^ *Epoch +(?:gpu_mem|GPU_mem) +(.+?) +(?:labels|targets|Instances) +(?:img_size|Size) *$")
_ROW = re.compile(rf"^ *(\d+)/(\d+) +\d[\d.]*[GMK]? +((?:{NUMBER} +)+)\d+ +\d+:")
_SCORES = re.compile(rf"^ *all +\d+ +\d+ +({NUMBER}) +({NUMBER}) +({NUMBER}) +({NUMBER})")
_SCORE_NAMES = ("metrics/precision", "metrics/recall", "metrics/mAP50", "metrics/mAP50-95")


class _Epochs:
    def __init__(self) -> None:
        self._names: list[str] = []
        self._row: Record = {}

    def take(self, line: str) -> Iterable[Record]:
        if found := _NAMES.match(line):
            self._names = [name if name.endswith("loss") else f"{name}_loss" for name in found[1].split()]
        elif found := _ROW.match(line):
            values = found[3].split()
            if self._row.get("epoch") != int(found[1]):
                yield from self.end()
            if len(values) == len(self._names):
                losses = {f"train/{name}": number(value) for name, value in zip(self._names, values, strict=True)}
                self._row = {"epoch": int(found[1]), **losses}
        elif self._row and (found := _SCORES.match(line)):
            self._row |= {name: number(value) for name, value in zip(_SCORE_NAMES, found.groups(), strict=True)}

    def end(self) -> Iterable[Record]:
        if self._row:
            yield self._row
        self._row = {}


FORMAT = LogFormat(
    "YOLO", _ROW, _Epochs, "means on the way through an epoch, scores of single classes, the model's summary"
)
