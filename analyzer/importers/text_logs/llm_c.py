"""llm.c: `step 1/19560 | loss 11.0 (+nanz)| norm 15.3 (+nanz)| lr 8.57e-07 | 3057 ms | …`, and main.log's `s:1 trl:11.0 lr:…`."""

import re
from collections.abc import Iterable

from ..records import Record
from .log_format import NUMBER, LogFormat, number

_STEP = re.compile(rf"^ *step +(\d+)/\d+ \| (?:train )?loss ({NUMBER})(.*)")
_PAIR = re.compile(rf"\| *(norm|lr) ({NUMBER})")
_VAL = re.compile(rf"^ *val loss:? ({NUMBER})")
_FILE = re.compile(rf"^s:(\d+) (?:tel|trl|eval):{NUMBER}")
_CELL = re.compile(rf"(\w+):({NUMBER})")
_NAMES = {"trl": "loss", "tel": "val loss", "eval": "eval accuracy", "norm": "grad norm", "lr": "lr"}


class _Steps:
    def __init__(self) -> None:
        self._step = 0

    def take(self, line: str) -> Iterable[Record]:
        if found := _STEP.search(line):
            self._step = int(found[1])
            more = {_NAMES[name]: number(value) for name, value in _PAIR.findall(found[3])}
            yield {"step": self._step, "loss": number(found[2])} | more
        elif found := _VAL.search(line):
            yield {"step": self._step, "val loss": number(found[1])}
        elif found := _FILE.match(line):
            values = {_NAMES[n]: number(v) for n, v in _CELL.findall(line) if n in _NAMES}
            yield {"step": int(found[1])} | values

    def end(self) -> Iterable[Record]:
        return ()


FORMAT = LogFormat(
    "llm.c",
    re.compile(f"{_STEP.pattern}|{_FILE.pattern}"),
    _Steps,
    "tables of settings, generated text, times of steps",
)
