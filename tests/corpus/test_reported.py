"""Public bug reports as scripts, each with its fix: the fault is named first, and nothing is said against the fix.

`reported/<code>_<name>/` holds them under the name of their fault, as they were frozen before anything was run on them.
`truth.toml` beside them gives a table to each: `name`, one or several right names · `report`, its address · `round`, the
blind round of docs/public-reports.md that judged it · `missed`, where no rule names it yet.
"""

import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import forked
import pytest
from firstfault.analyzer import Trace, Verdict, diagnose
from suite import ENVIRONMENT, any_of

HERE = Path(__file__).parent / "reported"
_IN_CI = {"court_keypoints"}
"""What CI runs; `make suite` runs all."""


def _reports() -> Iterator[tuple[Path, dict[str, Any]]]:
    for truths in sorted(HERE.glob("*/truth.toml")):
        for name, truth in tomllib.loads(truths.read_text(encoding="utf-8")).items():
            yield truths.with_name(f"{name}.py"), truth


REPORTS = {file.stem: (file, truth) for file, truth in _reports()}


def _marked(name: str, *, faulty: bool) -> Any:
    marks = [] if name in _IN_CI else [pytest.mark.suite]
    if faulty and REPORTS[name][1].get("missed"):
        marks.append(pytest.mark.xfail(reason="no rule names it yet", strict=True))
    return pytest.param(name, marks=marks)


def judged(script: Path, folder: Path) -> Verdict:
    """Record a script in a folder of its own, where it may write, and judge it."""
    run, work = folder / "run", folder / "work"
    work.mkdir()
    command = [sys.executable, "-m", "firstfault", "run", "--quiet", "--out", run, script]
    forked.run(command, capture_output=True, check=False, env=ENVIRONMENT, cwd=work)
    with Trace(run) as trace:
        return diagnose(trace)


def test_every_script_has_its_fix_and_its_truth() -> None:
    files = {file.stem for file in HERE.glob("*/*.py")}

    assert files == {name + end for name in REPORTS for end in ("", "_fixed")}


@pytest.mark.slow
@pytest.mark.parametrize("name", [_marked(n, faulty=True) for n in REPORTS])
def test_the_reported_fault_is_the_first_cause(name: str, tmp_path: Path) -> None:
    file, truth = REPORTS[name]

    verdict = judged(file, tmp_path)

    assert verdict.causes, verdict.verdict
    assert verdict.causes[0].name in any_of(truth["name"])


@pytest.mark.slow
@pytest.mark.parametrize("name", [_marked(n, faulty=False) for n in REPORTS])
def test_the_fix_of_a_report_is_not_called_anomalous(name: str, tmp_path: Path) -> None:
    file, _ = REPORTS[name]

    verdict = judged(file.with_name(f"{name}_fixed.py"), tmp_path)

    assert [c.message for c in verdict.causes if c.severity != "warning"] == []
