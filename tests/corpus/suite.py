"""What the corpus holds: trainings with a fault and the truth about each, and healthy runs that look odd.

Every script is complete in its file and knows nothing of firstfault. `faults/<code>_<name>/` holds the scripts with one fault,
`healthy/<theme>/` healthy ones; `truth.toml` beside them has a table for each script.
"""

import os
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent

_PATHS = [str(HERE / "libraries"), *filter(None, [os.environ.get("PYTHONPATH")])]

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(_PATHS)}
"""What a script of the corpus runs in: libraries that are not installed have stand-ins here."""


def _scripts(kind: str) -> dict[str, tuple[Path, dict[str, Any]]]:
    """Script → its file and its truth. Raises ValueError for a script without a truth, and for two scripts of one name."""
    found: dict[str, tuple[Path, dict[str, Any]]] = {}
    files = {file.stem: file for file in (HERE / kind).glob("*/*.py")}
    for truths in sorted((HERE / kind).glob("*/truth.toml")):
        for name, truth in tomllib.loads(truths.read_text(encoding="utf-8")).items():
            if name in found:
                raise ValueError(f"two scripts are called {name}")
            found[name] = truths.with_name(f"{name}.py"), truth
    if wrong := {str(file) for file in files.values()} ^ {str(file) for file, _ in found.values()}:
        raise ValueError(f"without a file, without a truth or called like another script: {sorted(wrong)}")
    return found


TRUTHS = _scripts("faults")
"""Script with a fault → file and truth.

name: one or several right names · step: "s" (the onset), "s+1" (what happens after
that step has ended) or a number · module: one or several · onset: where the default
is not possible · options: of `firstfault run` · verdict = "healthy": the fault is advice, a warning is wanted; or one of several
· origin: who wrote it; "blind" was written without a look at the rules, "after a blind one" follows such a script."""

_HEALTHY = _scripts("healthy")

ODD = {name: file for name, (file, _) in _HEALTHY.items()}
"""Healthy run that looks odd → file."""

BLIND = {name for name, (_, truth) in (*TRUTHS.items(), *_HEALTHY.items()) if truth["origin"].endswith("blind")}
"""Scripts that were written without a look at the rules. Rules have been changed after their first verdicts."""

if both := set(TRUTHS) & set(ODD):
    raise ValueError(f"called alike: {sorted(both)}")


def any_of(value: Any) -> list[Any]:
    """One right answer or several."""
    return value if isinstance(value, list) else [value]


def step_of(truth: dict[str, Any], onset: int) -> int:
    """The first wrong step of a script that was given this onset."""
    step = str(truth["step"])
    return int(step) if "s" not in step else onset + int(step.removeprefix("s") or 0)


SLICE = {
    "a_body_that_is_thawed_after_a_third",
    "first_moments_scaled",
}
"""What CI runs, to stay within minutes. `make suite` runs all."""

if unknown := SLICE - set(TRUTHS) - set(ODD):
    raise ValueError(f"no such script: {sorted(unknown)}")
