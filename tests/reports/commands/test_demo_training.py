"""The demo holds the diagnosis against what it knows to be true."""

import ast
import json
import sys
from pathlib import Path
from typing import Any

import forked
import pytest
from firstfault.reports.commands.demo_training import FAULT_STEP, SCRIPT, TRUTHS, disagreements

FIRST = "fully-masked-attention-row"
"""What `make demo` takes."""


def test_every_fault_of_the_script_has_its_truth():
    [faults] = [
        ast.literal_eval(node.value)
        for node in ast.parse(SCRIPT.read_text()).body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "FAULTS"
    ]
    assert set(faults) == set(TRUTHS)


def test_the_script_knows_nothing_of_firstfault():
    assert "firstfault" not in SCRIPT.read_text()


def test_a_right_diagnosis_agrees(make_verdict, make_finding):
    verdict = make_verdict(causes=[make_finding(step=FAULT_STEP)])
    assert disagreements(verdict, TRUTHS["fully-masked-attention-row"]) == []


@pytest.mark.parametrize(
    ("wrong", "word"),
    [({"step": FAULT_STEP + 1}, "step"), ({"module": "blocks.1"}, "module"), ({"name": "divergence"}, "cause")],
)
def test_a_diagnosis_that_misses_step_module_or_name_does_not_agree(make_verdict, make_finding, wrong, word):
    verdict = make_verdict(causes=[make_finding(**{"step": FAULT_STEP} | wrong)])
    missed = disagreements(verdict, TRUTHS["fully-masked-attention-row"])
    assert len(missed) == 1
    assert missed[0].startswith(word)


def test_an_alarm_on_the_healthy_run_does_not_agree(make_verdict):
    assert disagreements(make_verdict("healthy"), TRUTHS["none"]) == []
    assert disagreements(make_verdict("anomalous"), TRUTHS["none"]) != []


def test_no_cause_does_not_agree_with_a_fault(make_verdict):
    assert disagreements(make_verdict("healthy"), TRUTHS["killed"]) != []


def test_an_unknown_fault_is_one_clear_line(tmp_path):
    done = _demo("no-such-fault", tmp_path)
    assert done.returncode == 2
    assert "fully-masked-attention-row" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault", [f if f == FIRST else pytest.param(f, marks=pytest.mark.suite) for f in sorted(TRUTHS)]
)
def test_the_demo_is_diagnosed_right(fault, tmp_path):
    done = _demo(fault, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "The diagnosis agrees" in done.stderr
    page = tmp_path / "run-report.html"
    assert page.stat().st_size > 500_000
    told = json.loads(done.stdout)
    assert (told["run"], told["report"], told["wrong"]) == (str(tmp_path / "run"), str(page), [])


def _demo(fault: str, folder: Path) -> Any:
    command = [sys.executable, "-m", "firstfault", "demo", fault, "--json", "--out", str(folder / "run")]
    return forked.run(command, text=True, cwd=folder, timeout=300)
