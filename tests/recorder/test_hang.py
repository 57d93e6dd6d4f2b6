"""A run that stands still is found, its threads are written down, and whoever ends it is not taken for the cause."""

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from firstfault.analyzer import diagnose
from firstfault.analyzer.reading.trace import Trace
from firstfault.recorder.supervisor.hang import HangWatch, ask_for_stacks
from firstfault.schemas import read_exit
from firstfault.schemas.files.breadcrumb import BreadcrumbWriter
from firstfault.schemas.files.layout import breadcrumb_path

pytestmark = pytest.mark.new_process

STANDS_STILL = """
    import threading
    import torch

    model = torch.nn.Linear(4, 1)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    lock = threading.Lock()
    for step in range(9):
        if step == 6:
            lock.acquire()
            wait_for_ever = lock.acquire
            wait_for_ever()
        opt.zero_grad()
        model(torch.ones(2, 4)).mean().backward()
        opt.step()
"""


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def training(tmp_path: Path) -> tuple[BreadcrumbWriter, Path]:
    return BreadcrumbWriter(breadcrumb_path(tmp_path, 0), 2**22 + 1), tmp_path  # above the largest process id


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.suite)])
def test_a_deadlock_that_somebody_ended_is_a_hang_with_the_line_that_stood_still(bench, wait_for, number):
    bench.write(STANDS_STILL)
    process = bench.start("script.py", options=["--hang-timeout", "2s"])
    stacks = bench.run / "native" / "rank=0000-hang.txt"
    wait_for(lambda: stacks.exists() and stacks.stat().st_size > 0)
    process.send_signal(number)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert stderr.decode().count("[hang]") == 1
    exit_ = read_exit(bench.run)
    assert exit_ is not None
    assert exit_.status == "hang"
    assert f"ended by {number.name}" in (exit_.note or "")
    assert 'script.py", line 12 in <module>' in (exit_.native_stack or "")
    with Trace(bench.run) as trace:
        trace.prepare()
        assert [(c.name, c.step) for c in diagnose(trace).causes] == [("hang", 6)]


def test_hang_kill_ends_it(bench):
    bench.write(STANDS_STILL)
    bench.forked = True  # no signal is sent to it from here
    recorded = bench.record("script.py", options=["--hang-timeout", "2s", "--hang-kill"])
    assert recorded.returncode == 128 + signal.SIGKILL
    assert recorded.exit.status == "hang"
    assert 'script.py", line 12 in <module>' in (recorded.exit.native_stack or "")


@pytest.mark.suite
def test_a_pause_that_ends_before_the_script_does_is_no_hang(bench):
    stacks = bench.run / "native" / "rank=0000-hang.txt"
    until_it_is_noticed = f"while not open({str(stacks)!r}, 'rb').read(1): lock.acquire(timeout=0.2)"
    bench.write(STANDS_STILL.replace("wait_for_ever()", until_it_is_noticed))
    recorded = bench.record("script.py", options=["--hang-timeout", "2s"])
    assert recorded.returncode == 0
    assert recorded.exit.status == "completed"
    assert recorded.stderr.decode().count("[hang]") >= 1  # a busy machine may keep it waiting once more, at its end
    assert recorded.exit.note is None


def test_a_pause_of_less_than_five_minutes_is_no_hang_by_default(training):
    crumb, run = training
    clock, said = Clock(), []
    watch = HangWatch(run, None, said.append, clock)
    for step in range(30):
        crumb.note(step, step, 0, 0, -1)
        watch.look()
        clock.now += 0.1
    clock.now += 299
    watch.look()
    assert said == []
    clock.now += 2
    watch.look()
    assert watch.note() == "no progress for 301 s"


def test_a_run_of_long_steps_has_twenty_of_them_before_it_hangs(training):
    crumb, run = training
    clock = Clock()
    watch = HangWatch(run, None, lambda _: None, clock)
    for step in range(5):
        crumb.note(step, step, 0, 0, -1)
        watch.look()
        clock.now += 60
    assert watch.limit() == pytest.approx(20 * 60)


def test_a_run_that_went_on_and_then_died_did_not_hang(training):
    crumb, run = training
    clock, said = Clock(), []
    watch = HangWatch(run, 10.0, said.append, clock)
    crumb.note(1, 1, 0, 0, -1)
    watch.look()
    clock.now += 11
    watch.look()
    assert watch.note() is not None
    crumb.note(2, 2, 0, 0, -1)
    assert watch.note() is None
    watch.look()
    assert said[-1].startswith("it goes on")


def test_a_script_that_has_not_begun_to_train_does_not_hang(tmp_path):
    clock, said = Clock(), []
    watch = HangWatch(tmp_path, 1.0, said.append, clock)
    for _ in range(5):
        watch.look()
        clock.now += 1000
    assert said == []


def test_a_process_without_the_handler_is_left_alone():

    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert not ask_for_stacks(other.pid)
    assert other.poll() is None
    other.communicate(b"\n", timeout=30)
    assert other.returncode == 0


def test_a_second_recording_in_one_process_writes_into_its_own_folder_and_leaves_no_file_open(tmp_path):
    code = """
        import os, signal, sys
        from pathlib import Path
        from firstfault.recorder.base.stacks_on_demand import STACK_SIGNAL, answer_with_stacks, hang_stack_path
        first, second = Path(sys.argv[1]), Path(sys.argv[2])
        answer_with_stacks(first, 0)
        opened = len(os.listdir("/proc/self/fd"))
        answer_with_stacks(second, 0)
        signal.raise_signal(STACK_SIGNAL)
        print(len(os.listdir("/proc/self/fd")) - opened)
        print(hang_stack_path(first, 0).stat().st_size, "most recent call first" in hang_stack_path(second, 0).read_text())
    """
    folders = [str(tmp_path / "first"), str(tmp_path / "second")]
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *folders], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["0", "0", "True"]
