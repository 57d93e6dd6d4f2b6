"""detectron2: `eta: 0:10:00  iter: 79  total_loss: 1.32  loss_cls: 0.91  time: 0.5  lr: 1.5e-05  max_mem: 5000M`."""

import re

from ..records import Record
from .log_format import NUMBER, EachLine, LogFormat, number, time_in

_LINE = re.compile(rf"\biter: (\d+) +(?=.*loss\w*: {NUMBER})(.*)")
_PAIR = re.compile(rf"([A-Za-z_][\w/.-]*): ({NUMBER})(?=\s|$)")


def _record_of(line: str) -> Record | None:
    found = _LINE.search(line)
    if found is None:
        return None
    values = {("time per step" if n == "time" else n): number(v) for n, v in _PAIR.findall(found[2])}
    return {"step": int(found[1])} | values | time_in(line)


FORMAT = LogFormat(
    "detectron2",
    _LINE,
    lambda: EachLine(_record_of),
    "tables of AP, `copypaste:` lines, the configuration; metrics.json beside the log has these numbers",
)
