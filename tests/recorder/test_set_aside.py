"""Parts that are put into eval mode by themselves, and what train() of the whole model makes of it."""

import copy
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from firstfault.recorder import Recorder
from firstfault.schemas.files.layout import parts
from torch import nn

pytestmark = pytest.mark.usefixtures("objects_of_the_test_alone")


_COPIES: list[nn.Module] = []


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU())
        self.head = nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.backbone(x))


def evaluate(net: Net) -> None:
    net.eval()
    with torch.no_grad():
        net(torch.randn(6, 4))


def set_aside_once(net: Net, step: int) -> None:
    if step == 0:
        net.train()
        net.backbone.eval()
    if step == 4:
        evaluate(net)
        net.train()


def beside_a_copy_that_nobody_has_called(net: Net, step: int) -> None:
    if step == 0:
        _COPIES.append(copy.deepcopy(net).eval())
    set_aside_once(net, step)


def set_aside_each_time(net: Net, step: int) -> None:
    set_aside_once(net, step)
    net.backbone.eval()


def thawed(net: Net, step: int) -> None:
    if step == 0:
        net.backbone.requires_grad_(False).eval()
    if step == 4:
        net.backbone.requires_grad_(True)
        net.train()


def meant(net: Net, step: int) -> None:
    set_aside_once(net, min(step, 3))
    net.backbone.train(step >= 4)


def parts_evaluated(net: Net, step: int) -> None:
    if step == 4:
        net.backbone.eval()
        with torch.no_grad():
            net(torch.randn(6, 4))
        net.train()


def frozen_before_the_first_epoch(net: Net, step: int) -> None:
    if step == 0:
        net.backbone.requires_grad_(False).eval()
        net.train()


def norm_frozen_before_the_first_epoch(net: Net, step: int) -> None:
    if step == 0:
        for module in net.modules():
            if isinstance(module, nn.BatchNorm1d):
                module.eval()
        net.train()


def norm_frozen_in_each_epoch(net: Net, step: int) -> None:
    net.train()
    net.backbone[1].eval()


def all_evaluated_one_by_one(net: Net, step: int) -> None:
    if step in {0, 4}:
        for module in net.modules():
            module.eval()
        with torch.no_grad():
            net(torch.randn(6, 4))
        net.train()


def never_put_aside(net: Net, step: int) -> None:
    if step == 0:
        net.backbone.requires_grad_(False)
    net.train()


@pytest.mark.parametrize(
    ("prepare", "told_at"),
    [
        (set_aside_once, [4]),
        (beside_a_copy_that_nobody_has_called, [4]),
        (frozen_before_the_first_epoch, [0]),
        (norm_frozen_before_the_first_epoch, [0]),
        (norm_frozen_in_each_epoch, []),
        (all_evaluated_one_by_one, []),
        (set_aside_each_time, []),
        (thawed, []),
        (meant, []),
        (parts_evaluated, []),
        (never_put_aside, []),
    ],
)
def test_a_part_that_trains_again_though_nobody_said_so_is_told(
    prepare: Callable[[Net, int], None], told_at: list[int], tmp_path: Path
) -> None:
    torch.manual_seed(0)
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    with Recorder(tmp_path / "run", model=net):
        for step in range(8):
            prepare(net, step)
            optimizer.zero_grad()
            net(torch.randn(6, 4)).square().mean().backward()
            optimizer.step()

    _COPIES.clear()
    rows = [r for part in parts(tmp_path / "run", "events") for r in pq.read_table(part.path).to_pylist()]
    assert [r["step"] for r in rows if r["event"] == "mode-undone"] == told_at
