"""What a SIGKILL at any moment leaves behind."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from firstfault.analyzer import Trace, diagnose

SCRIPT = Path(__file__).parent / "scripts" / "endless.py"
KILLS = int(os.environ.get("FIRSTFAULT_KILLS", "4"))
"""The issue's fifty are run with FIRSTFAULT_KILLS=50."""


def script_pid(supervisor: int) -> int:
    children = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
    return int(children[0])


@pytest.mark.parametrize("seed", range(KILLS))
@pytest.mark.parametrize("victim", ["script", "both"])
def test_a_killed_run_keeps_every_completed_step(seed: int, victim: str, tmp_path: Path) -> None:
    run, counter = tmp_path / "run", tmp_path / "returned"
    command = [sys.executable, "-m", "firstfault", "run", "--out", str(run), str(SCRIPT), str(counter)]
    supervisor = subprocess.Popen(command, stderr=subprocess.DEVNULL)
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
        steps = trace.sql("SELECT step FROM steps WHERE completed AND stepped ORDER BY step")["step"].to_list()
        verdict = diagnose(trace)
    assert steps[:returned] == list(range(returned))
    assert len(steps) <= returned + 1  # the step may have returned without having been counted yet
    stats_steps = len(steps)
    assert verdict.run.steps_recorded == stats_steps
    if victim == "script":
        assert status == 128 + signal.SIGKILL
        assert verdict.run.status == "signal"
        assert verdict.causes[0].name == "killed-by-signal"
    else:
        assert verdict.run.status == "host-lost"
