"""NeMo and other trainings under Lightning: the names in a progress bar, and NeMo 2's `Training epoch 0, iteration 3/99 | lr: …`.

A bar prints `global_step=2e+3` with three digits: where it is not whole, the place in the bar counts.
"""

import re
from collections.abc import Iterable

from ..records import Record
from .log_format import NUMBER, LogFormat, number, time_in

_HEAD = r"Epoch (\d+):[^|]*\|[^|]*\| *(\d+)/(\d+) "
_BAR = re.compile(rf"{_HEAD}\[([^\]]*)\]")
_PAIR = re.compile(rf"([A-Za-z_][\w/ @-]*)=({NUMBER})(?=[,\] ]|$)")
_LOSS = r"\[[^\]]*\b\w*loss\w*="
_ITERATION = re.compile(r"Training epoch (\d+), iteration (\d+)/(\d+) \|(.*)")
_CELL = re.compile(rf"([A-Za-z_][^:|]*): *({NUMBER})(?= *(?:\||$))")


class _Bars:
    """Bars repeat what was logged last: a value is taken when it changes, or with a new loss."""

    def __init__(self) -> None:
        self._last: Record = {}

    def take(self, line: str) -> Iterable[Record]:
        for epoch, place, total, rest in _BAR.findall(line):
            values = {name.strip(): number(value) for name, value in _PAIR.findall(rest)}
            step = values.pop("global_step", None)
            exact = re.search(r"global_step=(\d+)(?:\.0*)?(?![\d.e])", rest)
            if step is None or exact is None:
                step = int(epoch) * int(total) + int(place)
            fresh = {n: v for n, v in values.items() if self._last.get(n) != v or "val" not in n.lower()}
            if fresh and values != self._last:
                self._last = values
                yield {"step": int(step), **fresh}
        if found := _ITERATION.search(line):
            cells = (_CELL.search(cell) for cell in found[4].split("|"))
            values = {c[1].strip(): number(c[2]) for c in cells if c}
            step = values.pop("global_step", int(found[1]) * (int(found[3]) + 1) + int(found[2]))
            yield {"step": int(step or 0), **values} | time_in(line)

    def end(self) -> Iterable[Record]:
        return ()


FORMAT = LogFormat(
    "a Lightning progress bar",
    re.compile(rf"{_HEAD}{_LOSS}|Training epoch \d+, iteration \d+/\d+ \|"),
    _Bars,
    "bars without a loss, v_num, checkpoints, the table of parameters",
)
