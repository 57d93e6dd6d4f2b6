"""A device that answers nothing more takes nothing with it: what was measured is written, and nothing of ours is raised."""

import os
import sys
from pathlib import Path

import forked
import pytest
import torch
from firstfault.analyzer import Trace, diagnose
from firstfault.recorder.tensors.device import _UNWRITTEN, DeviceStatistics, Page, is_lost, join_when_ready, wait_for
from firstfault.schemas import read_exit

SCRIPT = Path(__file__).parent / "scripts" / "device_dies.py"


@pytest.fixture(scope="module")
def dead(tmp_path_factory: pytest.TempPathFactory) -> tuple[forked.Done, Path]:
    run = tmp_path_factory.mktemp("dead") / "run"
    command = [sys.executable, "-m", "firstfault", "run", "--out", str(run), str(SCRIPT)]
    return forked.run(command, cwd=run.parent, env={**os.environ}, text=True), run


def test_the_scripts_own_error_is_the_only_one(dead: tuple[forked.Done, Path]) -> None:
    done, run = dead
    assert done.returncode == 1
    assert "19 steps recorded" in done.stderr
    assert "Exception ignored" not in done.stderr
    assert "switched" not in done.stderr
    assert done.stderr.count("Traceback") == 1
    with Trace(run) as trace:
        assert trace.sql("SELECT * FROM events WHERE event = 'recorder-fault'").is_empty()


def test_the_batch_is_named_that_broke_it(dead: tuple[forked.Done, Path]) -> None:
    _, run = dead
    exit_ = read_exit(run)
    assert exit_ is not None
    assert exit_.device_assertion == "nll_loss_forward_reduce_cuda_kernel_2d: t >= 0 && t < n_classes"
    with Trace(run) as trace:
        first = diagnose(trace).causes[0]
    assert (first.name, first.step) == ("label-out-of-range", 18)
    assert "for the first time" in first.message


@pytest.fixture
def statistics(monkeypatch: pytest.MonkeyPatch) -> DeviceStatistics:
    def broken() -> bool:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    def seal(self: Page) -> None:
        self._sealed = True
        self.event = type("Event", (), {"query": staticmethod(broken), "synchronize": staticmethod(broken)})()  # pyright: ignore[reportAttributeAccessIssue]

    monkeypatch.setattr(Page, "seal", seal)
    return DeviceStatistics(torch.device("cpu"))


def test_rows_that_were_written_are_read_and_the_others_are_unknown(statistics: DeviceStatistics) -> None:
    written, unwritten = statistics.measure([torch.ones(3), torch.ones(5)])
    number, unknown = statistics.scalar(torch.tensor(2.5)), statistics.scalar(torch.tensor(1.0))
    (page,) = statistics.seal()
    page.bits[1], page.bits[3] = _UNWRITTEN, _UNWRITTEN

    assert page.ready()
    assert page.lost
    assert wait_for(written).sum == 3.0
    assert (wait_for(unwritten).numel, wait_for(unwritten).sum, wait_for(unwritten).nonfinite) == (5, None, 0)
    assert (wait_for(number), wait_for(unknown)) == (2.5, None)


def test_a_number_that_is_nan_is_told_from_one_that_is_not_there(statistics: DeviceStatistics) -> None:
    lost, late = statistics.scalar(torch.tensor(torch.nan)), statistics.scalar(torch.tensor(1.0))
    (page,) = statistics.seal()
    page.bits[1] = _UNWRITTEN
    assert torch.tensor(wait_for(lost)).isnan()
    assert wait_for(late) is None
    page.reuse()
    assert (page.bits[:2] == _UNWRITTEN).all()


def test_what_is_joined_of_an_unknown_number_is_unknown(statistics: DeviceStatistics) -> None:
    known, unknown = statistics.scalar(torch.tensor(2.0)), statistics.scalar(torch.tensor(1.0))
    (page,) = statistics.seal()
    page.bits[1] = _UNWRITTEN
    assert wait_for(join_when_ready([known], sum)) == 2.0
    assert wait_for(join_when_ready([known, unknown], sum)) is None
    assert join_when_ready([None, 1.0], sum) is None


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        (RuntimeError("CUDA error: device-side assert triggered"), True),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), True),
        (RuntimeError("CUDA error: operation not permitted when stream is capturing"), False),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB."), False),
        (ValueError("device-side assert triggered"), False),
    ],
)
def test_only_errors_after_which_nothing_is_answered_count(error: Exception, lost: bool) -> None:
    assert is_lost(error) is lost
