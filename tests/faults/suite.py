"""What the suite holds: scripts with a fault and the truth about each, and healthy runs that look odd."""

import re
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent

_FOUND = [
    (name, truths.with_suffix(".py"), truth)
    for truths in sorted(HERE.glob("*.toml"))
    for name, truth in tomllib.loads(truths.read_text(encoding="utf-8")).items()
]

TRUTHS: dict[str, tuple[Path, dict[str, Any]]] = {name: (file, truth) for name, file, truth in _FOUND}
"""Script → file and truth. `data_faults.toml` tells the truth about the scripts of `data_faults.py`.

name: one or several right names · step: "s" (the onset), "s+1" (what happens after
that step has ended) or a number · module: one or several · onset: where the default
is not possible · options: of `firstfault run` · verdict = "healthy": the fault is advice, a warning is wanted."""

_ODD = [
    (name, file)
    for file in sorted(HERE.glob("odd*.py"))
    for name in re.findall(r"^def (\w+)\(\):", file.read_text(encoding="utf-8"), re.MULTILINE)
    if name not in {"train", "main"}
]

ODD = dict(_ODD)
"""Healthy runs that look odd: function without arguments → file."""

_names = [name for name, *_ in (*_FOUND, *_ODD)]
if len(set(_names)) < len(_names):
    raise ValueError(f"two scripts are called alike: {sorted({n for n in _names if _names.count(n) > 1})}")


def any_of(value: Any) -> list[Any]:
    """One right answer or several."""
    return value if isinstance(value, list) else [value]


def step_of(truth: dict[str, Any], onset: int) -> int:
    """The first wrong step of a script that was given this onset."""
    step = str(truth["step"])
    return int(step) if "s" not in step else onset + int(step.removeprefix("s") or 0)


def _one_for_each_name() -> set[str]:
    first: dict[str, str] = {}
    for script, (_, truth) in TRUTHS.items():
        for name in any_of(truth["name"]):
            first.setdefault(name, script)
    return set(first.values())


SLICE = set(sorted(_one_for_each_name())[::40]) | set(sorted(ODD)[::120])
"""What CI runs, to stay within minutes: a script for every 40th name, and every 120th odd run. `make suite` runs all."""
