"""nanoGPT and its kin: `iter 250: loss 1.23, time 12.3ms, mfu 5.1%`, `step 250: train loss 1.9, val loss 2.0`,
`step 20 | loss: 9.5 | lr 6.0e-04 | norm: 1.2 | dt: 9ms`, and the log file `20 train 9.5`."""

import re

from ..records import Record
from .log_format import NUMBER, EachLine, LogFormat, number, time_in

_ITER = re.compile(rf"\biter (\d+): loss ({NUMBER}), time ({NUMBER})ms(?:, mfu ({NUMBER})%)?")
_STEP = re.compile(rf"\bstep (\d+): train loss ({NUMBER}),? val loss ({NUMBER})")
_BARS = re.compile(rf"\bstep +(\d+) \| loss: ({NUMBER})(.*)")
_PAIR = re.compile(rf"\| *(lr|norm|dt|tok/sec):? *({NUMBER})")
_FILE = re.compile(rf"^(\d+) (train|val|hella) ({NUMBER})$")


def _record_of(line: str) -> Record | None:
    if found := _ITER.search(line):
        record: Record = {"step": int(found[1]), "loss": number(found[2]), "time per step": number(found[3])}
        return record | ({"mfu": number(found[4])} if found[4] else {}) | time_in(line)
    if found := _STEP.search(line):
        return {"step": int(found[1]), "train loss": number(found[2]), "val loss": number(found[3])} | time_in(line)
    if found := _BARS.search(line):
        more = {"grad norm" if name == "norm" else name: number(value) for name, value in _PAIR.findall(found[3])}
        return {"step": int(found[1]), "loss": number(found[2])} | more | time_in(line)
    if found := _FILE.match(line):
        name = {"train": "loss", "val": "val loss", "hella": "hellaswag accuracy"}[found[2]]
        return {"step": int(found[1]), name: number(found[3])}
    return None


FORMAT = LogFormat(
    "nanoGPT",
    re.compile(f"{_ITER.pattern}|{_STEP.pattern}|{_BARS.pattern}|{_FILE.pattern}"),
    lambda: EachLine(_record_of),
    "samples of text, the configuration, validation losses without a step",
)
