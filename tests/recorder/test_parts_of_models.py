"""What is done to a part of a model only: modules that join a list, gradients of a part that are cleared; reads in one loop."""

from pathlib import Path
from time import perf_counter_ns

import pytest
import torch
from firstfault.analyzer import Trace
from firstfault.recorder import Recorder
from torch import nn


class Growing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.more: list[nn.Module] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for part in self.more:
            x = x + part(x)
        return x


def test_a_module_that_joins_a_plain_list_in_mid_run_is_noted_at_its_first_call(tmp_path: Path) -> None:
    torch.manual_seed(0)
    with Recorder(tmp_path / "run"):
        model = Growing()
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        for step in range(6):
            if step == 3:
                model.more.append(nn.Linear(4, 4))
            optimizer.zero_grad()
            model(torch.randn(8, 4)).square().mean().backward()
            optimizer.step()

    with Trace(tmp_path / "run") as trace:
        assert trace.sql("SELECT step FROM events WHERE event = 'unregistered'").rows() == [(3,)]
        names = trace.sql("SELECT tensor_name FROM tensors WHERE registered = false ORDER BY tensor_name")
        assert names["tensor_name"].to_list() == ["more[0].bias", "more[0].weight"]


@pytest.mark.parametrize(("part", "left"), [("whole", False), ("head", True)])
def test_gradients_of_what_a_modules_zero_grad_does_not_reach_are_carried(
    tmp_path: Path, part: str, left: bool
) -> None:
    torch.manual_seed(0)
    with Recorder(tmp_path / "run"):
        model = nn.ModuleDict({"body": nn.Linear(4, 8), "head": nn.Linear(8, 1)})
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        for _ in range(5):
            (model if part == "whole" else model["head"]).zero_grad()
            model["head"](model["body"](torch.randn(16, 4))).square().mean().backward()
            optimizer.step()

    with Trace(tmp_path / "run") as trace:
        carried = trace.sql("SELECT carried_grad_norm FROM steps WHERE stepped AND step > 0 ORDER BY step")
    assert [norm > 0 for norm in carried["carried_grad_norm"]] == [left] * 4


def test_two_reads_in_one_loop_share_its_time(tmp_path: Path) -> None:
    took: list[int] = []
    with Recorder(tmp_path / "run"):
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        for _ in range(6):
            optimizer.zero_grad()
            model(torch.ones(8, 4)).square().mean().backward()
            optimizer.step()
            first, second = torch.arange(3000), torch.arange(3000)
            began = perf_counter_ns()
            total = 0
            for i in range(3000):
                total += first[i].item()
                total += second[i].item()
            took.append(perf_counter_ns() - began)

    with Trace(tmp_path / "run") as trace:
        loops = trace.sql(
            "SELECT step, count(*) AS places, sum(loop_ns) AS ns FROM host_reads GROUP BY step ORDER BY step"
        )
    assert loops.height >= 3
    for step, places, ns in loops.rows():
        assert places == 2
        assert 0.05 * took[step] < ns < 1.2 * took[step]
