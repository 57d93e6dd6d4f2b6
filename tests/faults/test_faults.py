"""Every fault script is named with its step and module; no healthy run that looks odd is called anomalous."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from firstfault.analyzer import Trace, Verdict, diagnose

HERE = Path(__file__).parent
TRUTHS: dict[str, tuple[Path, dict[str, Any]]] = {
    name: (truths.with_suffix(".py"), truth)
    for truths in sorted(HERE.glob("*.toml"))
    for name, truth in tomllib.loads(truths.read_text()).items()
}
"""Script → file and truth. `data_faults.toml` tells the truth about the scripts of `data_faults.py`."""
ODD = {
    name: file
    for file in sorted(HERE.glob("odd*.py"))
    for name in re.findall(r"^def (\w+)\(\):", file.read_text(), re.MULTILINE)
    if name != "train"
}
"""Healthy runs that look odd: function without arguments → file."""


def record(run: Path, *arguments: object) -> Verdict:
    command = [sys.executable, "-m", "firstfault", "run", "--quiet", "--out", run, *map(str, arguments)]
    subprocess.run(command, capture_output=True, check=False)
    with Trace(run) as trace:
        return diagnose(trace)


def any_of(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


@pytest.mark.slow
@pytest.mark.parametrize("script", TRUTHS)
def test_the_fault_is_the_first_cause_at_its_step_and_module(script: str, tmp_path: Path) -> None:
    file, truth = TRUTHS[script]
    onset = truth.get("onset", 14)

    verdict = record(tmp_path / "run", file, script, onset)

    assert verdict.verdict == "anomalous"
    first = verdict.causes[0]
    assert first.name in any_of(truth["name"])
    if "step" in truth:
        assert first.step == (onset if truth["step"] == "s" else truth["step"])
    if "module" in truth:
        assert first.module in any_of(truth["module"])


@pytest.mark.slow
@pytest.mark.parametrize("script", sorted(ODD))
def test_a_healthy_run_that_looks_odd_is_not_called_anomalous(script: str, tmp_path: Path) -> None:
    verdict = record(tmp_path / "run", ODD[script], script)

    assert [f.message for f in verdict.causes if f.severity != "warning"] == []
    assert verdict.verdict == ("inconclusive" if script == "inference_only" else "healthy")
