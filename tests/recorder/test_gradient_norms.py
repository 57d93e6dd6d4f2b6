"""Norms of gradients: those that are carried from one step to the next are known."""

from pathlib import Path

import pytest
import torch
from firstfault.analyzer import Trace
from firstfault.recorder import Recorder
from torch import nn


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
