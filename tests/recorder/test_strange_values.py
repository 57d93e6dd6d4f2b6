"""Scripts whose numbers are numpy's and whose texts are no Unicode: nothing of them may end the recording."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from firstfault.analyzer import Trace, diagnose
from firstfault.recorder import Recorder
from torch import nn

BAD_NAMES = """
import os
import torch
import warnings
torch.manual_seed(0)
net = torch.nn.Linear(4, 2)
opt = torch.optim.SGD(net.parameters(), 0.1)
for i in range(8):
    loss = net(torch.randn(8, 4)).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if i == 2:
        torch.save(net.state_dict(), os.fsdecode(b"weights-\\xff.pt"))
    if i == 4:
        warnings.warn("half a pair: \\ud800")
raise ValueError("cannot read weights-\\udcff.pt")
"""


class Scaled(nn.Linear):
    """A layer that keeps numbers and a name of numpy's classes."""

    def __init__(self) -> None:
        super().__init__(4, 2)
        self.scale, self.times, self.title = np.float64(0.5), np.int64(3), np.str_("last")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) * self.scale


def test_a_script_full_of_numpys_numbers_is_recorded_whole(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 4), Scaled())
    optimizer = torch.optim.SGD(
        model.parameters(), lr=np.float64(0.1), momentum=np.float64(0.9), weight_decay=np.float64(1e-4)
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: np.float64(1 / (1 + epoch)))
    with Recorder(tmp_path / "run", model=model) as recorder:
        for rate in np.linspace(0.1, 0.01, 6):
            optimizer.zero_grad()
            loss = model(torch.randn(8, 4)).square().mean()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), np.float64(1.0))
            optimizer.step()
            schedule.step()
            optimizer.param_groups[0]["lr"] = rate
            recorder.log(rate=rate, steps=np.int64(2**40))

    with Trace(tmp_path / "run") as trace:
        assert trace.sql("SELECT event FROM events WHERE event = 'recorder-fault'").is_empty()
        assert trace.steps_recorded() == 6
        settings = trace.rows("SELECT settings FROM modules WHERE class_name = 'Scaled'")[0]["settings"]
        rates = trace.sql("SELECT DISTINCT lr FROM param_groups WHERE step = 5")["lr"].to_list()
    assert json.loads(settings) == {"in_features": 4, "out_features": 2, "scale": 0.5, "title": "last"}
    assert rates == [np.linspace(0.1, 0.01, 6)[4]]


def test_names_that_are_no_unicode_are_recorded_in_words(bench: Any) -> None:
    recorded = bench.record(str(bench.write(BAD_NAMES)))
    assert recorded.returncode == 1
    with Trace(recorded.run) as trace:
        assert trace.steps_recorded() == 8
        events = {row["event"]: row["message"] for row in trace.rows("SELECT event, message FROM events")}
        cause = diagnose(trace).causes[0]
    assert "recorder-fault" not in events
    assert events["checkpoint-saved"].startswith("weights-\\udcff.pt")
    assert events["warning"] == "UserWarning: half a pair: \\ud800"
    assert (cause.name, cause.step) == ("python-exception", 7)
    assert "ValueError at step 7: cannot read weights-\\udcff.pt" in cause.message


def test_a_number_of_more_than_64_bits_is_no_end_of_the_recording(tmp_path: Path) -> None:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    optimizer.param_groups[0]["seed"] = 2**200
    model.seed = 2**200
    with Recorder(tmp_path / "run", model=model) as recorder:
        for step in range(4):
            optimizer.zero_grad()
            model(torch.randn(8, 4)).square().mean().backward()
            optimizer.step()
            recorder.log(large=2**70, step=step)

    with Trace(tmp_path / "run") as trace:
        assert trace.sql("SELECT event FROM events WHERE event = 'recorder-fault'").is_empty()
        assert trace.steps_recorded() == 4


def test_a_rate_for_each_element_is_no_number_and_no_end_of_the_recording(tmp_path: Path) -> None:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with Recorder(tmp_path / "run", model=model):
        for step in range(6):
            optimizer.zero_grad()
            model(torch.randn(8, 4)).square().mean().backward()
            optimizer.step()
            optimizer.param_groups[0]["eta"] = torch.ones(3)
            optimizer.param_groups[0]["eps"] = torch.tensor([1e-8, 1e-6]) if step % 2 else 1e-8

    with Trace(tmp_path / "run") as trace:
        eps = trace.sql("SELECT eps FROM param_groups ORDER BY step")["eps"].to_list()
    assert eps == [None, 1e-8, None, 1e-8, None, 1e-8]


def test_a_part_that_fails_is_said_at_once_and_its_silence_is_not_taken_for_the_scripts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with Recorder(tmp_path / "run", model=model):
        for step in range(12):
            if step == 3:
                monkeypatch.setattr("firstfault.recorder.loop.param_group_rows._settings", lambda group: 1 / 0)
            optimizer.zero_grad()
            model(torch.randn(8, 4)).square().mean().backward()
            optimizer.step()

    with Trace(tmp_path / "run") as trace:
        faults = trace.rows("SELECT step, message FROM events WHERE event = 'recorder-fault'")
        verdict = diagnose(trace)
    assert "[optimizer] ZeroDivisionError" in capsys.readouterr().err
    assert [(row["step"], row["message"]) for row in faults][:1] == [
        (3, "optimizer switched itself off: ZeroDivisionError: division by zero")
    ]
    assert [f.name for f in verdict.causes] == ["recording-incomplete"]


class Compressed(nn.Module):
    """Takes rows of a compressed sparse matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 2))
        self.register_buffer("adjacency", torch.eye(8).to_sparse_csc())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sparse.mm(x, self.weight)


class Unsigned(nn.Linear):
    """Takes counts of 16 bits, which torch can hardly compute with."""

    def __init__(self) -> None:
        super().__init__(4, 2)
        for dtype in (torch.uint16, torch.uint32, torch.uint64):
            self.register_buffer(f"table_of_{dtype.itemsize}", torch.arange(4).to(dtype))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.float() / 100)


RARE = {
    "compressed sparse": (Compressed, lambda: torch.randn(8, 4).relu().to_sparse_csr()),
    "adjacency of zeros and ones": (Compressed, lambda: (torch.rand(8, 4) < 0.5).float().to_sparse()),
    "adjacency of two samples": (Compressed, lambda: torch.eye(4).to_sparse_coo()),
    "unsigned": (Unsigned, lambda: torch.randint(300, (8, 4)).to(torch.uint16)),
    "scripted": (lambda: torch.jit.script(nn.Sequential(nn.Linear(4, 2), nn.ReLU())), lambda: torch.randn(8, 4)),
}


@pytest.mark.filterwarnings("ignore")  # torch calls sparse tensors young and scripts old
@pytest.mark.parametrize("kind", RARE)
def test_tensors_and_modules_of_rare_kinds_are_recorded(kind: str, tmp_path: Path) -> None:
    make, batch = RARE[kind]
    model = make()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with Recorder(tmp_path / "run", model=model):
        for _ in range(4):
            optimizer.zero_grad()
            model(batch()).square().mean().backward()
            optimizer.step()

    with Trace(tmp_path / "run") as trace:
        assert trace.rows("SELECT message FROM events WHERE event = 'recorder-fault'") == []
        assert trace.steps_recorded() == 4
        assert trace.rows("SELECT count(*) AS n FROM tensor_stats WHERE phase = 'data' AND numel > 0")[0]["n"] == 4
