"""How often each rule was right on the fault suite: the committed scoreboard, read back.

Precision of a name is found / (found + named wrongly) over all recordings of the suite, warnings aside.
"""

from functools import cache
from importlib.resources import files
from typing import NamedTuple

import msgspec


class Precision(NamedTuple):
    """Share of a rule's causes that were the truth, and of how many recordings; None where it never was a cause."""

    share: float | None
    cases: int


class _Counts(msgspec.Struct):
    found: int
    missed: int
    wrong: int


class _Scoreboard(msgspec.Struct):
    rules: dict[str, _Counts]


def precision_of(name: str) -> Precision:
    """Measured precision of a rule, by the name it gives."""
    counts = _scoreboard().rules.get(name)
    cases = counts.found + counts.wrong if counts is not None else 0
    return Precision(round(counts.found / cases, 3) if counts is not None and cases else None, cases)


@cache
def _scoreboard() -> _Scoreboard:
    file = files("firstfault.analyzer") / "scoreboard.json"
    return msgspec.json.decode(file.read_bytes(), type=_Scoreboard)
