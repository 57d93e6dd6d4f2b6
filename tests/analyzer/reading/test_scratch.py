"""What a large run is judged with on the disk goes with the process, and what a killed one left goes with the next."""

import gc
import os
import signal
import subprocess
import sys

import pytest
from firstfault.analyzer.reading import trace as reading
from firstfault.analyzer.reading.scratch import Scratch

HOLDS = """
import sys, time
from firstfault.analyzer.reading.scratch import Scratch
scratch = Scratch()
(scratch.path / "scratch.duckdb").write_bytes(bytes(1000))
print(scratch.path, flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path


def test_what_a_killed_process_left_is_removed_and_what_a_living_one_holds_stays(temporary):
    children = [subprocess.Popen([sys.executable, "-c", HOLDS], stdout=subprocess.PIPE) for _ in range(2)]
    try:
        killed, living = (child.stdout.readline().decode().strip() for child in children)
        os.kill(children[0].pid, signal.SIGKILL)
        children[0].wait()
        foreign = temporary / "firstfault-scratch-of-nobody"
        foreign.mkdir()  # has no lock: it is being made at this moment
        scratch = Scratch()
        assert sorted(map(str, temporary.glob("firstfault-*"))) == sorted([living, str(foreign), str(scratch.path)])
        assert killed != living
        scratch.close()
        scratch.close()
        assert not scratch.path.exists()
    finally:
        for child in children:
            child.kill()
            child.wait()
            child.stdout.close()


def test_a_link_that_is_called_so_is_not_followed(temporary):
    private = temporary / "private"
    private.mkdir()
    (private / "lock").touch()
    (temporary / "firstfault-scratch-x").symlink_to(private)
    Scratch().close()
    assert (private / "lock").exists()


@pytest.mark.parametrize("closed", [True, False])
def test_a_large_run_leaves_nothing_behind(write_run, temporary, monkeypatch, closed):
    monkeypatch.setattr(reading, "LARGE_BYTES", 0)
    trace = reading.Trace(write_run(steps=[{"step": step, "loss": 1.0, "completed": True} for step in range(10)]))
    trace.prepare()
    assert len(list(temporary.glob("firstfault-scratch-*/lock"))) == 1
    assert trace.steps_recorded() == 10
    if closed:
        trace.close()
    del trace
    gc.collect()
    assert list(temporary.glob("firstfault-*")) == []
