"""Graphs that an evaluation with gradients gathers and lets go of."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from firstfault.recorder import Recorder
from firstfault.schemas.files.layout import parts
from torch import Tensor, nn

pytestmark = pytest.mark.usefixtures("objects_of_the_test_alone")


def sums(net: nn.Module) -> float:
    total: Any = 0.0
    for _ in range(20):
        total += net(torch.randn(6, 4)).square().mean()
    return float(total.detach())


def keeps(net: nn.Module) -> float:
    return float(torch.cat([net(torch.randn(6, 4)) for _ in range(20)]).mean().detach())


def one_after_the_other(net: nn.Module) -> float:
    return sum(float(net(torch.randn(6, 4)).mean().detach()) for _ in range(20))


def without_gradients(net: nn.Module) -> float:
    with torch.no_grad():
        return sums(net)


def a_few(net: nn.Module) -> float:
    return float(torch.stack([net(torch.randn(6, 4)).mean() for _ in range(6)]).sum().detach())


@pytest.mark.parametrize(
    ("evaluate", "told"),
    [(sums, [20]), (keeps, [20]), (one_after_the_other, []), (without_gradients, []), (a_few, [])],
)
def test_forwards_whose_graphs_live_at_once_without_a_backward_are_told(
    evaluate: Callable[[nn.Module], float], told: list[int], tmp_path: Path
) -> None:
    def between(net: nn.Module, step: int) -> Tensor:
        if step == 5:
            evaluate(net)
        return net(torch.randn(6, 4)).square().mean()

    assert recorded(between, tmp_path) == [(5, n - n % 8) for n in told]


def test_a_loss_over_many_forwards_uses_their_graphs(tmp_path: Path) -> None:
    def rolled_out(net: nn.Module, _: int) -> Tensor:
        return torch.stack([net(torch.randn(6, 4)).square().mean() for _ in range(20)]).mean()

    assert recorded(rolled_out, tmp_path) == []


def recorded(loss_of: Callable[[nn.Module, int], Tensor], folder: Path) -> list[tuple[int, int]]:
    """Steps with graphs that were let go of, and how many."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    with Recorder(folder / "run", model=net):
        for step in range(8):
            optimizer.zero_grad()
            loss_of(net, step).backward()
            optimizer.step()
    rows = [r for part in parts(folder / "run", "events") for r in pq.read_table(part.path).to_pylist()]
    return [(r["step"], int(r["message"].split()[0])) for r in rows if r["event"] == "graphs-let-go"]
