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
TRUTH: dict[str, dict[str, Any]] = tomllib.loads((HERE / "truth.toml").read_text())
ODD = re.findall(r"^def (\w+)\(\):", (HERE / "odd.py").read_text(), re.MULTILINE)
HELPERS = {"train"}


def record(run: Path, *arguments: object) -> Verdict:
    command = [sys.executable, "-m", "firstfault", "run", "--quiet", "--out", run, *map(str, arguments)]
    subprocess.run(command, capture_output=True, check=False)
    with Trace(run) as trace:
        return diagnose(trace)


def any_of(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


@pytest.mark.slow
@pytest.mark.parametrize("script", TRUTH)
def test_the_fault_is_the_first_cause_at_its_step_and_module(script: str, tmp_path: Path) -> None:
    truth = TRUTH[script]
    onset = truth.get("onset", 14)

    verdict = record(tmp_path / "run", HERE / "faulty.py", script, onset)

    assert verdict.verdict == "anomalous"
    first = verdict.causes[0]
    assert first.name in any_of(truth["name"])
    if "step" in truth:
        assert first.step == (onset if truth["step"] == "s" else truth["step"])
    if "module" in truth:
        assert first.module in any_of(truth["module"])


@pytest.mark.slow
@pytest.mark.parametrize("script", sorted(set(ODD) - HELPERS))
def test_a_healthy_run_that_looks_odd_is_not_called_anomalous(script: str, tmp_path: Path) -> None:
    verdict = record(tmp_path / "run", HERE / "odd.py", script)

    assert [f.message for f in verdict.causes if f.severity != "warning"] == []
    assert verdict.verdict == ("inconclusive" if script == "inference_only" else "healthy")
