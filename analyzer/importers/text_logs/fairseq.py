"""fairseq: `train_inner | epoch 002:  85 / 282 loss=3.14, num_updates=401, lr=0.0001`, `valid | epoch 002 | … | loss 2.0 | …`.

It also writes JSON, and `[train_inner][INFO] - {…}` under hydra.
"""

import json
import re

from ..records import Record
from .log_format import NUMBER, EachLine, LogFormat, number, time_in

_INNER = re.compile(r"\btrain_inner \| epoch (\d+):.*?/ *\d+ (.*loss=.*)")
_EPOCH = re.compile(r"\| (train|valid\w*|test) \| epoch (\d+) \|(.*)")
_JSON = re.compile(r"(?:\| |\[)(train_inner|train|valid\w*|test)(?: \||\]\[INFO\] -) (\{.*\})")
_EQUAL = re.compile(rf"(\w+)=({NUMBER})(?=,|\s|$)")
_CELL = re.compile(rf"^ *(\w+) ({NUMBER}) *$")


def _record_of(line: str) -> Record | None:
    values: Record
    if found := _INNER.search(line):
        where, values = "train_inner", {n: number(v) for n, v in _EQUAL.findall(found[2])}
    elif found := _EPOCH.search(line):
        cells = (_CELL.match(cell) for cell in found[3].split("|"))
        where, values = found[1], {c[1]: number(c[2]) for c in cells if c}
    elif found := _JSON.search(line):
        try:
            read = json.loads(found[2])
        except (ValueError, RecursionError):
            return None
        where = found[1]
        values = (
            {n.removeprefix(f"{where}_"): number(str(v)) for n, v in read.items()} if isinstance(read, dict) else {}
        )
    else:
        return None
    step = values.pop("num_updates", None)
    if step is None:
        return None
    return {"step": int(step), **{f"{where}/{n}": v for n, v in values.items() if v is not None}} | time_in(line)


FORMAT = LogFormat(
    "fairseq",
    re.compile(
        r"\| (?:train_inner|train|valid\w*) \| (?:epoch \d|\{)|\[(?:train_inner|train|valid\w*)\]\[INFO\] - \{\""
    ),
    lambda: EachLine(_record_of),
    "the model, the task, lines without num_updates",
)
