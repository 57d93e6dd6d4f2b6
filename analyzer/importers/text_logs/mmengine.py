"""OpenMMLab: mmengine's `Epoch(train) [1][ 10/196]  lr: 3.3e-04  loss: 6.18` and mmcv's `Epoch [1][50/7330]\tlr: …, loss: …`.

Steps are counted over the epochs; an evaluation belongs to the last step before it.
"""

import re
from collections.abc import Iterable

from ..records import Record
from .log_format import NUMBER, LogFormat, number, time_in

_PLACE = r"\b(Epoch|Iter)(?:\((train|val|test)\))? *\[ *(\d+)(?:/(\d+))?\](?:\[ *(\d+)(?:/ *(\d+))?\])?"
_HEAD = re.compile(rf"{_PLACE}(.*)")
_PAIR = re.compile(rf"([A-Za-z_][\w/@.=+-]*): *({NUMBER})(?=[,\s]|$)")
_NO_VALUES = ("eta", "memory")


class _Epochs:
    def __init__(self) -> None:
        self._step = 0

    def take(self, line: str) -> Iterable[Record]:
        found = _HEAD.search(line)
        if found is None:
            return
        unit, mode, first, _, place, total, rest = found.groups()
        values = {name: number(value) for name, value in _PAIR.findall(rest) if name not in _NO_VALUES}
        if mode in {"val", "test"} or "loss" not in rest:
            values = {f"{mode or 'val'}/{n}": v for n, v in values.items() if n not in {"time", "data_time", "lr"}}
            if place is not None and total is not None and place != total:
                values = {}  # on the way through the evaluation
            if values:
                yield {"step": self._step} | values
            return
        if unit == "Epoch":
            self._step = (int(first) - 1) * int(total or 0) + int(place or 0)
        else:
            self._step = int(first)
        if "time" in values:
            values["time per step"] = values.pop("time")
        yield {"step": self._step} | values | time_in(line)

    def end(self) -> Iterable[Record]:
        return ()


FORMAT = LogFormat(
    "mmengine",
    re.compile(rf"{_PLACE}.*\b\w*loss\w*: *{NUMBER}"),
    _Epochs,
    "the configuration, tables of classes",
)
