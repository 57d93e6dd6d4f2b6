"""Lines of any script that name a step or an epoch and a loss: `Epoch 3/10, train_loss=0.53, acc: 0.8`, `step 5 | loss 2.0`."""

import re
from collections.abc import Iterable

from ..records import Record
from .log_format import NUMBER, LogFormat, number, time_in

_COUNT = re.compile(
    r"\b(global[ _]step|steps?|iter(?:ation)?|update|batch|epoch)\b[\s:=#\[]*(\d+)(?: *(?:/|of) *(\d+))?", re.IGNORECASE
)
_LOSS = re.compile(rf"\bloss\w*(?:\([^)]*\))?[\s:=]+{NUMBER}|\w*loss\w*[\s:=]+{NUMBER}", re.IGNORECASE)
_PAIR = re.compile(rf"([A-Za-z][\w/.@-]*(?: [A-Za-z][\w/.@-]*){{0,3}})\s*[:=]\s*({NUMBER})(?![\w/.:])")
_LOOSE = re.compile(rf"\b((?:\w+[ _])?(?:loss|lr|acc|accuracy|norm))\s+({NUMBER})(?![\w/.:])", re.IGNORECASE)
_COUNTS = {"step", "steps", "globalstep", "iter", "iteration", "update", "batch", "epoch"}


class _Lines:
    """Batches that are counted again in each epoch are counted on, where the line says how many an epoch has."""

    def take(self, line: str) -> Iterable[Record]:
        counts = {re.sub(r"[ _]", "", name.lower()): (int(n), total) for name, n, total in _COUNT.findall(line)}
        if not counts or not _LOSS.search(line):
            return
        values = {n: number(v) for n, v in (*_PAIR.findall(line), *_LOOSE.findall(line))}
        values = {_shown(n): v for n, v in values.items() if re.sub(r"[ _]", "", n.lower()) not in _COUNTS}
        record: Record = {}
        for name, (count, _) in counts.items():
            record["epoch" if name == "epoch" else "batch" if name == "batch" else "step"] = count
        if "epoch" in record and len(counts) > 1:
            name, (count, total) = next((n, c) for n, c in counts.items() if n != "epoch")
            if total and count <= int(total) and name != "globalstep":
                first = 1 if record["epoch"] > 0 else 0
                record["step"] = (record["epoch"] - first) * int(total) + count
        yield record | values | time_in(line)

    def end(self) -> Iterable[Record]:
        return ()


def _shown(name: str) -> str:
    """A name without the words of the sentence around it."""
    return re.sub(r"^(?:and|with|the|avg|average|mean|current) ", "", name.strip(), flags=re.IGNORECASE)


FORMAT = LogFormat(
    "lines with a step and a loss",
    re.compile(rf"(?=.*{_COUNT.pattern})(?=.*(?:{_LOSS.pattern}))", re.IGNORECASE),
    _Lines,
    "lines that name no step, iteration or epoch beside the loss",
)
