"""torchtitan: `step: 10  loss: 8.12  grad_norm: 1.5  memory: 38.6GiB(40.6%)  tps: 1,234  mfu: 40.1%`, in colours."""

import re

from ..records import Record
from .log_format import NUMBER, EachLine, LogFormat, number, time_in

_LINE = re.compile(rf"\b(validate )?step: *(\d+) +(?=.*\bloss: *{NUMBER})(.*\b(?:tps|wps|memory|mfu|grad_norm):.*)")
_PAIR = re.compile(rf"(\w+): *({NUMBER})(?=[ %G]|$)")


def _record_of(line: str) -> Record | None:
    found = _LINE.search(line)
    if found is None:
        return None
    before = "validate/" if found[1] else ""
    values = {before + name: number(value) for name, value in _PAIR.findall(found[3])}
    return {"step": int(found[2])} | values | time_in(line)


FORMAT = LogFormat("torchtitan", _LINE, lambda: EachLine(_record_of), "the configuration, timings without a loss")
