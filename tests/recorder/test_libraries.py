"""Healthy trainings of public libraries are recorded bit for bit as they are and called healthy.

Run by `make suite`, which installs the libraries (extra `libraries`)."""

import subprocess
import sys
from pathlib import Path

import pytest
from firstfault.analyzer import Trace, diagnose

SCRIPT = Path(__file__).parent / "scripts" / "libraries.py"


def numbers(output: str) -> list[str]:
    """What the script tells; a library's own lines hold times."""
    return [line for line in output.splitlines() if line.lstrip("-").startswith("0x")]


@pytest.mark.suite
@pytest.mark.parametrize("training", ["ppo", "sac", "arcface", "adafactor", "gaussian-process", "lora", "masks"])
def test_a_library_trains_the_same_recorded_and_is_called_healthy(training: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    script = [str(SCRIPT), training]
    plain = subprocess.run([sys.executable, *script], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    command = [sys.executable, "-m", "firstfault", "run", "--out", str(run), *script]
    recorded = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    assert len(numbers(plain)) == 2
    assert numbers(recorded) == numbers(plain)
    with Trace(run) as trace:
        assert trace.sql("SELECT message FROM events WHERE event = 'recorder-fault'").is_empty()
        assert trace.steps_recorded() >= 30
        verdict = diagnose(trace)
    assert (verdict.verdict, [f.message for f in verdict.causes if f.severity != "warning"]) == ("healthy", [])
