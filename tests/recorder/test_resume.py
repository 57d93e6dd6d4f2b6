"""A run that ended goes on in the same folder: numbers continue, and what was recorded stays as it was."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import forked
import pytest
from firstfault.analyzer import Trace, diagnose
from firstfault.recorder.base.errors import RecorderError
from firstfault.recorder.storage.resume import resume_run
from firstfault.schemas import BreadcrumbWriter, read_exit, read_manifest
from firstfault.schemas.files.layout import RUN_JSON, breadcrumb_path

SCRIPT = Path(__file__).parent / "scripts" / "resumable.py"


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "firstfault", "run", *map(str, arguments)]


def record(*arguments: object) -> subprocess.CompletedProcess[str]:
    return forked.run(command(*arguments), capture_output=True, text=True, check=False)


def parts_of(run: Path) -> dict[str, str]:
    return {str(p.relative_to(run)): hashlib.sha256(p.read_bytes()).hexdigest() for p in run.rglob("*.parquet")}


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """A run that was killed in its 26th step; its checkpoint is of step 20."""
    run = tmp_path / "run"
    done = record("--quiet", "--out", run, SCRIPT, tmp_path / "checkpoint.pt", 25)
    assert done.returncode == 137
    return run


def test_both_attempts_are_read_as_one_run_with_numbers_that_go_on(killed: Path) -> None:
    before = parts_of(killed)
    done = record("--resume", killed, SCRIPT, killed.parent / "checkpoint.pt", -1)
    assert done.returncode == 0
    after = parts_of(killed)
    assert before.items() <= after.items()
    with Trace(killed) as trace:
        steps = trace.sql("SELECT step FROM steps WHERE completed ORDER BY step")["step"].to_list()
        assert steps == list(range(25 + 40))
        attempts = trace.sql("SELECT attempt, first_step, status FROM attempts ORDER BY attempt").rows()
        assert attempts == [(1, 0, "signal"), (2, 25, "completed")]
        events = trace.sql("SELECT step, detail FROM events WHERE event = 'attempt'").rows()
        assert events == [(25, '{"attempt":2,"first_step":25}')]
        series = trace.sql("SELECT count(DISTINCT tensor_id) AS ids, count(*) AS n, count(DISTINCT step) AS steps"
                           " FROM stats WHERE tensor = '0.weight' AND kind = 'gradient'").row(0)  # fmt: skip
        assert series == (1, 65, 65)
        loaders = trace.sql("SELECT loader_id, min(step), max(step) FROM batches WHERE loader_id IS NOT NULL GROUP BY 1"
                            " ORDER BY 1").rows()  # fmt: skip
        assert loaders == [(0, 0, 24), (1, 25, 64)]
        assert trace.problems == []
        verdict = diagnose(trace)
    assert [f.name for f in verdict.causes if f.severity != "warning"] == []
    assert verdict.run.status == "completed"
    manifest = read_manifest(killed)
    assert manifest.attempt == 2
    assert manifest.earlier[0].exit is not None
    assert manifest.earlier[0].exit.signal_name == "SIGKILL"


def test_a_resume_that_forgets_the_optimizer_is_named_at_its_step(killed: Path) -> None:
    record("--quiet", "--resume", killed, SCRIPT, killed.parent / "checkpoint.pt", -1, "forget")
    with Trace(killed) as trace:
        causes = diagnose(trace).causes
    assert (causes[0].name, causes[0].step) == ("optimizer-state-lost", 25)


@pytest.mark.suite
@pytest.mark.slow
def test_a_run_whose_supervisor_was_killed_too_loses_nothing_by_going_on(killed: Path, tmp_path: Path) -> None:
    run, checkpoint = tmp_path / "both", tmp_path / "other.pt"
    supervisor = subprocess.Popen(command("--quiet", "--out", run, SCRIPT, checkpoint, 1000), stderr=subprocess.DEVNULL)
    while not checkpoint.exists():
        assert supervisor.poll() is None
    supervisor.kill()
    supervisor.wait()
    for path in breadcrumb_path(run, 0).parent.glob("*.bin"):
        pid = int.from_bytes(path.read_bytes()[8:16], "little")
        with_it = Path(f"/proc/{pid}")
        if with_it.exists():
            os.kill(pid, 9)
        while with_it.exists() and "Z" not in (with_it / "stat").read_text().rpartition(")")[2][:3]:
            pass
    with Trace(run) as trace:
        assert trace.status == "host-lost"
        before = trace.sql("SELECT step, loss FROM steps WHERE completed ORDER BY step").rows()
    assert before
    record("--quiet", "--resume", run, SCRIPT, checkpoint, -1)
    with Trace(run) as trace:
        after = trace.sql("SELECT step, loss FROM steps WHERE completed ORDER BY step").rows()
        assert trace.sql("SELECT status FROM attempts ORDER BY attempt")["status"].to_list() == [
            "host-lost",
            "completed",
        ]
    assert after[: len(before)] == before
    assert [step for step, _ in after] == list(range(len(after)))


@pytest.mark.suite
def test_a_third_attempt_goes_on_after_the_second(killed: Path) -> None:
    record("--quiet", "--resume", killed, SCRIPT, killed.parent / "checkpoint.pt", 40)
    record("--quiet", "--resume", killed, SCRIPT, killed.parent / "checkpoint.pt", -1)
    with Trace(killed) as trace:
        rows = trace.sql("SELECT attempt, first_step, status FROM attempts ORDER BY attempt").rows()
        assert rows == [(1, 0, "signal"), (2, 25, "signal"), (3, 45, "completed")]
    assert sorted(p.name for p in (killed / "attempts").iterdir()) == ["0001", "0002"]


def test_a_crash_in_the_middle_of_resuming_can_be_resumed(killed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = read_exit(killed)

    def power_cut(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("firstfault.recorder.storage.resume.write_json", power_cut)
    with pytest.raises(RecorderError, match="cannot be written"):
        resume_run(killed, argv=["x"], script="x.py")
    monkeypatch.undo()
    with Trace(killed) as trace:
        assert trace.manifest.attempt == 1
    resume_run(killed, argv=["x"], script="x.py")
    assert read_manifest(killed).earlier[0].exit == before


def test_a_run_that_is_still_going_is_refused(killed: Path) -> None:
    BreadcrumbWriter(breadcrumb_path(killed, 0), os.getpid()).note(1, 25, 0, 1, -1)
    manifest = (killed / RUN_JSON).read_bytes()
    done = record("--resume", killed, SCRIPT, killed.parent / "checkpoint.pt", -1)
    assert done.returncode == 2
    assert f"process {os.getpid()} is still recording" in done.stderr
    assert (killed / RUN_JSON).read_bytes() == manifest


@pytest.mark.parametrize(
    ("options", "says"),
    [(["--resume", "nothing"], "run.json"), (["--resume", "{run}", "--out", "x"], "leave --out and --name away")],
)
def test_a_folder_that_cannot_be_resumed_is_one_clear_line(killed: Path, options: list[str], says: str) -> None:
    done = record(*(o.format(run=killed) for o in options), SCRIPT, "x", 1)
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


SMALL = """
import os, signal, sys
import torch
steps = int(sys.argv[1])
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
for step in range(steps):
    model(torch.randn(4, 8)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_steps_that_a_killed_attempt_had_only_counted_stay_known(tmp_path: Path) -> None:
    run, script = tmp_path / "run", tmp_path / "train.py"
    script.write_text(SMALL)
    record("--quiet", "--out", run, script, 3001)
    record("--quiet", "--resume", run, script, 2002)
    with Trace(run) as trace:
        rows = trace.sql("SELECT step, 1 AS steps FROM steps WHERE completed").rows()
        rows += trace.sql("SELECT step, steps FROM unwatched_steps").rows()
        counted = diagnose(trace).run.steps_recorded
    assert read_manifest(run).first_step == 3001
    steps = sorted(step for last, count in rows for step in range(last - count + 1, last + 1))
    assert steps == list(range(len(steps)))
    assert counted == 3001 + 2002
