"""Megatron-LM, Megatron-DeepSpeed and their forks: `iteration 11/ 500 | consumed samples: 88 | lm loss: 1.01E+01 | …`."""

import re

from ..records import Record
from .log_format import NUMBER, EachLine, LogFormat, number, time_in

_TRAIN_HEAD = r"\biteration +(\d+) */ *\d+ *\|"
_VALIDATION_HEAD = r"\b(validation|test) loss at iteration (\d+).*?\|"
_TRAIN = re.compile(rf"{_TRAIN_HEAD}(.*)")
_VALIDATION = re.compile(rf"{_VALIDATION_HEAD}(.*)")
_PAIR = re.compile(rf"([A-Za-z][^:|]*): *({NUMBER})(?=[ /|]|$)")


def _record_of(line: str) -> Record | None:
    if found := _TRAIN.search(line):
        return {"step": int(found[1])} | _pairs(found[2], "") | time_in(line)
    if found := _VALIDATION.search(line):
        return {"step": int(found[2])} | _pairs(found[3], f"{found[1]}/") | time_in(line)
    return None


def _pairs(text: str, before: str) -> Record:
    cells = (_PAIR.search(cell) for cell in text.split("|"))
    return {before + c[1].strip().removesuffix(" value"): number(c[2]) for c in cells if c}


FORMAT = LogFormat(
    "Megatron-LM",
    re.compile(rf"{_TRAIN_HEAD}.*loss|{_VALIDATION_HEAD}"),
    lambda: EachLine(_record_of),
    "arguments, timers, theoretical memory, throughput after a slash",
)
