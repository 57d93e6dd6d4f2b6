"""What a SIGKILL at any moment leaves behind."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import forked
import pytest
from firstfault.analyzer import Trace, diagnose
from firstfault.recorder.loop.unwatched_steps import ROWS_AT_ONCE
from firstfault.recorder.session.budget import MOST_BETWEEN_LOSSES
from firstfault.recorder.storage.segments import completed_steps

SCRIPT = Path(__file__).parent / "scripts" / "endless.py"
TWO_RANKS = Path(__file__).parent / "scripts" / "endless_ranks.py"
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
KILLS = int(os.environ.get("FIRSTFAULT_KILLS", "1"))
"""Seeds, each of which kills twice: the script, and everything. `make suite` takes four; 25 make fifty kills."""


def script_pid(supervisor: int) -> int:
    children = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
    return int(children[0])


@pytest.mark.parametrize("seed", range(KILLS))
@pytest.mark.parametrize("victim", [pytest.param("script", marks=pytest.mark.suite), "both"])
def test_a_killed_run_keeps_every_completed_step(seed: int, victim: str, tmp_path: Path) -> None:
    run, counter = tmp_path / "run", tmp_path / "returned"
    command = [sys.executable, "-m", "firstfault", "run", "--out", str(run), str(SCRIPT), str(counter)]
    supervisor = forked.Process(command)
    while not counter.exists() or counter.stat().st_size == 0:
        assert supervisor.poll() is None
        time.sleep(0.01)
    script = script_pid(supervisor.pid)
    time.sleep(random.Random(f"{seed}{victim}").uniform(0, 2.5))

    if victim == "both":  # the machine's memory ran out, or somebody killed the whole job
        supervisor.kill()
    os.kill(script, signal.SIGKILL)
    status = supervisor.wait(timeout=60)
    while Path(f"/proc/{script}").exists() and victim == "both":
        time.sleep(0.01)

    returned = counter.stat().st_size
    with Trace(run) as trace:
        rows = trace.sql("SELECT step, 1 AS steps FROM steps WHERE completed AND stepped").rows()
        rows += trace.sql("SELECT step, steps FROM unwatched_steps").rows()
        verdict = diagnose(trace)
    steps = sorted(step for last, count in rows for step in range(last - count + 1, last + 1))
    assert steps == list(range(len(steps)))
    counted = completed_steps(run)[0]
    assert returned <= counted <= returned + 1  # the step may have returned without having been counted yet
    assert counted - len(steps) < ROWS_AT_ONCE * MOST_BETWEEN_LOSSES  # of these the breadcrumb alone knows
    assert verdict.run.steps_recorded == counted  # the tail that the breadcrumb alone knows included
    if victim == "script":
        assert status == 128 + signal.SIGKILL
        assert verdict.run.status == "signal"
        assert verdict.causes[0].name == "killed-by-signal"
    else:
        assert verdict.run.status == "host-lost"


def gone(pid: int) -> bool:
    """Whether a process has ended; a zombie that nobody waits for has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.suite
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(max(KILLS // 2, 1)))
@pytest.mark.parametrize("victim", [pytest.param("one rank", marks=pytest.mark.suite), "everything"])
@pytest.mark.parametrize(
    "launcher", [pytest.param([], id="spawn"), pytest.param(TORCHRUN, id="torchrun", marks=pytest.mark.suite)]
)
def test_killed_with_two_ranks_every_completed_step_of_each_is_readable(
    seed: int, victim: str, launcher: list[str], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    counters = [tmp_path / f"returned-{rank}" for rank in (0, 1)]
    command = [
        sys.executable,
        "-m",
        "firstfault",
        "run",
        "--budget",
        "off",
        "--out",
        str(run),
        *launcher,
        str(TWO_RANKS),
        str(tmp_path),
    ]
    supervisor = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    while not all(c.exists() and c.stat().st_size for c in counters):
        assert supervisor.poll() is None
        time.sleep(0.01)
    launcher = script_pid(supervisor.pid)
    ranks = [int((tmp_path / f"pid-{rank}").read_text()) for rank in (0, 1)]
    chance = random.Random(f"{seed}{victim}{launcher}")
    time.sleep(chance.uniform(0, 2.5))

    if victim == "everything":
        supervisor.kill()
        for pid in (launcher, *ranks):
            os.kill(pid, signal.SIGKILL)
    else:
        os.kill(chance.choice(ranks), signal.SIGKILL)
    status = supervisor.wait(timeout=120)
    while not all(gone(pid) for pid in ranks):
        time.sleep(0.01)

    with Trace(run) as trace:
        for rank, counter in enumerate(counters):
            returned = counter.stat().st_size
            rows = trace.sql(
                "SELECT step FROM steps WHERE rank = $rank AND completed AND stepped ORDER BY step", {"rank": rank}
            )
            steps = rows["step"].to_list()
            assert steps[:returned] == list(range(returned))
            assert len(steps) <= returned + 1
            measured = trace.sql("SELECT DISTINCT step FROM tensor_stats WHERE rank = $rank", {"rank": rank})
            assert set(steps) <= set(measured["step"].to_list())
        assert trace.problems == []
        assert trace.status == ("host-lost" if victim == "everything" else "exception")
    assert (status == -signal.SIGKILL) == (victim == "everything")
