"""How often each rule was right on trainings that were written without knowledge of the rules: blind.toml, read back.

Precision of a name is right / (right + wrong) over all blind rounds. The corpus of `tests/corpus` says nothing here: the rules
were made beside it.
"""

import tomllib
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import msgspec


class Precision(NamedTuple):
    """Share of a rule's causes that were the truth, and of how many trainings; None where it never was a cause in one."""

    share: float | None
    cases: int


class _Counts(msgspec.Struct, forbid_unknown_fields=True):
    right: int
    wrong: int


def precision_of(name: str) -> Precision:
    """Measured blind precision of a rule, by the name it gives."""
    counts = _blind().get(name)
    cases = counts.right + counts.wrong if counts is not None else 0
    return Precision(round(counts.right / cases, 3) if counts is not None and cases else None, cases)


@cache
def _blind() -> dict[str, _Counts]:
    text = (files("firstfault.analyzer") / "rules" / "blind.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), dict[str, _Counts])
