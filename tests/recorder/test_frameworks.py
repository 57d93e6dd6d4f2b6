"""Trainings whose loop belongs to a framework are recorded as they are: the same bits, every optimizer step, no alarm.

Run by `make suite`, which installs the frameworks (extra `frameworks`)."""

import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from firstfault.analyzer import Trace, diagnose
from firstfault.schemas.files.layout import parts

SCRIPT = Path(__file__).parent / "scripts" / "frameworks.py"


def rows(run: Path, table: str) -> list[dict]:
    return [row for part in parts(run, table) for row in pq.ParquetFile(part.path).read().to_pylist()]


def numbers(output: str) -> list[str]:
    """What the script tells; a framework's own lines hold times."""
    return [line for line in output.splitlines() if line.lstrip("-").startswith("0x")]


@pytest.mark.suite
@pytest.mark.parametrize("framework", ["transformers", "lightning", "lightning-gan", "accelerate"])
def test_a_framework_trains_the_same_recorded_and_each_of_its_steps_is_there(framework: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    training = [str(SCRIPT), framework]
    plain = subprocess.run([sys.executable, *training], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    command = [sys.executable, "-m", "firstfault", "run", "--out", str(run), *training]
    recorded = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    assert len(numbers(plain)) > 20
    assert numbers(recorded) == numbers(plain)
    steps = int(plain.split()[-1])
    assert sorted({row["step"] for row in rows(run, "steps") if row["completed"]}) == list(range(steps))
    assert [row["message"] for row in rows(run, "events") if row["event"] == "recorder-fault"] == []
    names = {row["tensor_name"] for row in rows(run, "tensors") if row["kind"] == "update"}
    assert names
    assert not any(name.startswith("param_groups") for name in names)
    with Trace(run) as trace:
        assert diagnose(trace).verdict == "healthy"
