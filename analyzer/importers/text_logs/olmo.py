"""OLMo: a line `[step=10/739328,epoch=0]`, then one indented `name=number` a line."""

import re
from collections.abc import Iterable

from ..records import Record
from .log_format import NUMBER, LogFormat, number, time_in

_STEP = re.compile(r"\[step=(\d+)(?:/\d+)?[,\]]")
_VALUE = re.compile(rf"^\s+([A-Za-z][^=]*)=({NUMBER})$")


class _Blocks:
    def __init__(self) -> None:
        self._record: Record = {}
        self._step: int | None = None

    def take(self, line: str) -> Iterable[Record]:
        if found := _VALUE.match(line):
            if self._step is not None:
                self._record.setdefault("step", self._step)
                self._record[found[1]] = number(found[2])
            return
        yield from self.end()
        if found := _STEP.search(line):
            self._step = int(found[1])
            self._record = {"step": self._step} | time_in(line)

    def end(self) -> Iterable[Record]:
        if len(self._record) > 1:
            yield self._record
        self._record = {}


FORMAT = LogFormat(
    "OLMo",
    re.compile(rf"\[step=\d+/\d+[,\]]|^\s+(?:train|eval|optim)/\S+={NUMBER}$"),
    _Blocks,
    "checkpoints, warnings, values before the first step",
)
