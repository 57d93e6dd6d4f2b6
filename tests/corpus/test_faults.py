"""Every fault script is named with its step and module; no healthy run that looks odd is called anomalous."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import forked
import pytest
from firstfault.analyzer import Trace, Verdict, diagnose
from suite import ENVIRONMENT, ODD, SLICE, TRUTHS, any_of, step_of


def all_but_slice_marked(scripts: Iterable[str]) -> list[Any]:
    return [s if s in SLICE else pytest.param(s, marks=pytest.mark.suite) for s in scripts]


def record(run: Path, *arguments: object, options: Iterable[str] = ()) -> Verdict:
    command = [sys.executable, "-m", "firstfault", "run", "--quiet", "--out", run, *options, *map(str, arguments)]
    forked.run(command, capture_output=True, check=False, env=ENVIRONMENT)
    with Trace(run) as trace:
        return diagnose(trace)


@pytest.mark.slow
@pytest.mark.parametrize("script", all_but_slice_marked(TRUTHS))
def test_the_fault_is_the_first_cause_at_its_step_and_module(script: str, tmp_path: Path) -> None:
    file, truth = TRUTHS[script]
    onset = truth.get("onset", 14)

    verdict = record(tmp_path / "run", file, onset, options=truth.get("options", ()))

    assert verdict.verdict in any_of(truth.get("verdict", "anomalous"))
    names = [f.name for f in verdict.causes]
    if verdict.verdict == "anomalous":
        assert names[0] in any_of(truth["name"])
    first = next(f for f in verdict.causes if f.name in any_of(truth["name"]))
    if "step" in truth:
        assert first.step == step_of(truth, onset)
    if "module" in truth:
        assert first.module in any_of(truth["module"])


@pytest.mark.slow
@pytest.mark.parametrize("script", all_but_slice_marked(sorted(ODD)))
def test_a_healthy_run_that_looks_odd_is_not_called_anomalous(script: str, tmp_path: Path) -> None:
    verdict = record(tmp_path / "run", ODD[script])

    assert [f.message for f in verdict.causes if f.severity != "warning"] == []
    assert verdict.verdict == ("inconclusive" if script == "inference_only" else "healthy")
