"""Keras: `Epoch 1/5`, then a bar `1875/1875 [====] - 3s 2ms/step - loss: 0.29 - accuracy: 0.91 - val_loss: 0.15`.

What a bar says on its way is a running mean of the epoch: only its last words are taken. A step is an epoch.
"""

import re
from collections.abc import Iterable

from ..records import Record
from .log_format import NUMBER, LogFormat, number

_EPOCH = re.compile(r"^ *Epoch (\d+)/\d+")
_BAR = re.compile(r"^ *(\d+)/(\d+|Unknown) *(?:\[[=>.]*\]|[━╸╺ ]+).*? - .*\bloss: ")
_PAIR = re.compile(rf"- ([A-Za-z_]\w*): ({NUMBER})(?= |$)")


class _Epochs:
    def __init__(self) -> None:
        self._epoch = 0
        self._last: Record = {}

    def take(self, line: str) -> Iterable[Record]:
        if found := _EPOCH.match(line):
            yield from self.end()
            self._epoch = int(found[1])
        if _BAR.match(line):
            self._last |= {name: number(value) for name, value in _PAIR.findall(line)}

    def end(self) -> Iterable[Record]:
        if self._last:
            yield {"epoch": self._epoch, **self._last}
        self._last = {}


FORMAT = LogFormat(
    "Keras", _BAR, _Epochs, "means on the way through an epoch, the model's summary, messages of callbacks"
)
