"""Programs of the kinds that people run are recorded as they are, to the last digit that they print, and called healthy.

Each script is a whole program in the style of a library's or a field's own examples, with data that it makes or that a package
ships. Most are run by `make suite`; a few that need torch alone are run everywhere.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import forked
import pytest
from firstfault.analyzer import Trace, diagnose

SCRIPTS = {path.stem: path for path in (Path(__file__).parent / "scripts").glob("*.py")}
EVERYWHERE = {"gcn_karate_style"}


def run(command: list[str], folder: Path) -> forked.Done:
    """What a command printed, and the seconds of processor that it and its children took."""
    return forked.run(command, cwd=folder, env=os.environ | {"HF_HUB_OFFLINE": "1"}, text=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "program", [p if p in EVERYWHERE else pytest.param(p, marks=pytest.mark.suite) for p in sorted(SCRIPTS)]
)
def test_a_program_prints_the_same_recorded_and_is_called_healthy(
    program: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    script = [str(SCRIPTS[program])]
    plain = run([sys.executable, *script], tmp_path)
    command = [sys.executable, "-m", "firstfault", "run", "--quiet", "--out", str(tmp_path / "run"), *script]
    recorded = run(command, tmp_path)

    assert plain.returncode == 0, plain.stderr
    assert recorded.returncode == 0, recorded.stderr
    assert plain.stdout
    assert recorded.stdout == plain.stdout
    assert "firstfault: [" not in recorded.stderr
    with Trace(tmp_path / "run") as trace:
        assert trace.sql("SELECT message FROM events WHERE event = 'recorder-fault'").is_empty()
        assert trace.steps_recorded() >= 20
        verdict = diagnose(trace)
    assert [f.message for f in verdict.causes if f.severity != "warning"] == []
    assert verdict.verdict == "healthy"
    record_property("cpu_ratio", recorded.processor_s / plain.processor_s)
