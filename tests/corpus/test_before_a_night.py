"""Mistakes from public reports that a preflight is to find before a night, each with its fix, which is to be let go.

`before_a_night/` holds the scripts of sets as they were frozen before anything was run on them. `truth.toml` beside them
gives a table to each: `report`, its address · `looked_at`, the area of the checks that its author had in mind · `missed`, where a
preflight lets it go · `doubted`, where it does not let its fix go. docs/public-reports.md has the figures.
"""

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent / "before_a_night"
TRUTHS: dict[str, dict[str, Any]] = tomllib.loads((HERE / "truth.toml").read_text(encoding="utf-8"))
GO = 0


def _marked(name: str, key: str) -> Any:
    known = [pytest.mark.xfail(reason=f"{key} as judged", strict=False)] if TRUTHS[name].get(key) else []
    return pytest.param(name, marks=[pytest.mark.suite, *known])


def answer(script: Path, folder: Path) -> int:
    """The exit status of a preflight of this script in a folder of its own, where it may write."""
    work = folder / "work"
    work.mkdir()
    command = [sys.executable, "-m", "firstfault", "preflight", "--json", "--out", folder / "out", script]
    return subprocess.run(
        command, check=False, cwd=work, capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    ).returncode


def test_every_script_has_its_fix_and_its_truth() -> None:
    files = {file.stem for file in HERE.glob("*.py")}

    assert files == {name + end for name in TRUTHS for end in ("", "_fixed")}


@pytest.mark.slow
@pytest.mark.parametrize("name", [_marked(n, "missed") for n in TRUTHS])
def test_a_mistake_is_stopped_or_doubted(name: str, tmp_path: Path) -> None:
    assert answer(HERE / f"{name}.py", tmp_path) in {1, 3}


@pytest.mark.slow
@pytest.mark.parametrize("name", [_marked(n, "doubted") for n in TRUTHS])
def test_its_fix_is_let_go(name: str, tmp_path: Path) -> None:
    assert answer(HERE / f"{name}_fixed.py", tmp_path) == GO
