"""Norms of gradients: those that are carried from one step to the next are known."""

import math
from pathlib import Path

import pytest
import torch
from firstfault.analyzer import Trace
from firstfault.recorder import Recorder
from firstfault.recorder.tensors.gradient_norms import SeenGradients, carried_norm, quick_norm
from torch import nn

pytestmark = pytest.mark.usefixtures("measuring_way")

GRADIENTS = {
    "small ones": [torch.randn(n) for n in (3, 100, 64, 5000)],
    "a large one": [torch.randn(3), torch.randn(70_000)],
    "transposed": [torch.randn(20, 30).t(), torch.randn(4)],
    "half precision": [torch.randn(300).bfloat16(), torch.randn(40)],
    "nothing but zeros": [torch.zeros(5), torch.zeros(70_000)],
    "NaN": [torch.randn(9), torch.tensor([1.0, math.nan])],
    "infinity": [torch.randn(9), torch.tensor([1.0, -math.inf])],
    "one is missing": [torch.randn(9), None, torch.randn(2)],
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_the_joint_norm_is_that_of_all_elements(name: str) -> None:
    present = [g for g in GRADIENTS[name] if g is not None]
    exact = math.sqrt(sum((g.double() ** 2).sum().item() for g in present))
    for _ in range(2):  # the second time it knows them
        norm = quick_norm(GRADIENTS[name], seen := SeenGradients())
        assert norm == pytest.approx(exact, rel=2e-3, nan_ok=True)
        assert quick_norm(GRADIENTS[name], seen) == pytest.approx(norm, rel=1e-6, nan_ok=True)
    assert carried_norm(present, 0)[0] == pytest.approx(exact, rel=2e-3, nan_ok=True)


def test_without_any_gradient_there_is_no_norm() -> None:
    assert quick_norm([None, None], SeenGradients()) is None


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
