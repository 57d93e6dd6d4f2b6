"""modded-nanogpt: `step:125/5100 val_loss:6.61 train_time:33012ms step_avg:287.06ms`, after the script's own source."""

import re

from ..records import Record
from .log_format import NUMBER, EachLine, LogFormat, number

_LINE = re.compile(rf"^step:(\d+)/(\d+) (?=.*\b(?:val|train)_loss:{NUMBER})(.*)")
_PAIR = re.compile(rf"(\w+):({NUMBER})(?:ms)?")


def _record_of(line: str) -> Record | None:
    found = _LINE.match(line)
    if found is None:
        return None
    return {"step": int(found[1]), **{name: number(value) for name, value in _PAIR.findall(found[3])}}


FORMAT = LogFormat(
    "modded-nanogpt", _LINE, lambda: EachLine(_record_of), "the source of the script, nvidia-smi, steps without a loss"
)
