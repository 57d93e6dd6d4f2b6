"""Which operators at a value without a derivative are hidden from the loss by a where or masked_fill, and only by that."""

from collections.abc import Callable

import pytest
import torch
from firstfault.analyzer import Trace
from firstfault.recorder import Recorder
from torch import Tensor, nn

pytestmark = pytest.mark.usefixtures("objects_of_the_test_alone")

SAME = torch.eye(6, dtype=torch.bool)


def hidden_behind_a_where(root: Tensor) -> Tensor:
    return torch.where(SAME, 0.0, root)


def hidden_a_few_operators_further(root: Tensor) -> Tensor:
    return (2 * root + 1).exp().clamp(max=50).masked_fill(SAME, 0.0)


def also_used_as_it_is(root: Tensor) -> Tensor:
    return root.masked_fill(SAME, 1e9).min(1).values - (root * SAME).sum(1)


def on_both_sides_of_the_mask(root: Tensor) -> Tensor:
    return torch.where(SAME, root, (2 - root).relu())


@pytest.mark.parametrize(
    ("loss", "masked"),
    [
        (hidden_behind_a_where, True),
        (hidden_a_few_operators_further, True),
        (also_used_as_it_is, False),
        (on_both_sides_of_the_mask, False),
        (lambda root: root, False),
    ],
)
def test_a_root_at_zero_is_masked_where_nothing_but_a_mask_leads_to_the_loss(
    tmp_path, loss: Callable[[Tensor], Tensor], masked: bool
) -> None:
    torch.manual_seed(0)
    net = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    with Recorder(tmp_path / "run"):
        for _ in range(2):
            out = net(torch.randn(6, 4))
            root = (out[:, None] - out[None]).square().sum(-1).sqrt()
            optimizer.zero_grad()
            loss(root).mean().backward()
            optimizer.step()
    with Trace(tmp_path / "run") as trace:
        found = trace.sql("SELECT masked FROM operators WHERE op = 'Sqrt' AND trigger = 'risk' AND step = 0")
    assert found["masked"].to_list() == [masked]
