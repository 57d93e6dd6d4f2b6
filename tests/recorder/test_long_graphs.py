"""What is kept of a long autograd graph when a loss is lost: the operators before the loss, wherever in the graph that was."""

import pytest
import torch
from firstfault.analyzer import Trace, diagnose
from firstfault.recorder import Recorder
from torch import Tensor, nn


def product_of_many(rates: Tensor, factors: int) -> Tensor:
    """A likelihood by hand: probabilities are multiplied one by one, and the logarithm comes last."""
    total = torch.ones(8)
    for _ in range(factors):
        total = total * rates.softmax(1)[:, 0]
    return -torch.log(total)


@pytest.mark.parametrize("factors", [150, 600])
def test_the_logarithm_at_the_end_of_hundreds_of_operators_is_named(tmp_path, factors: int) -> None:
    torch.manual_seed(0)
    net = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    with Recorder(tmp_path / "run"):
        for step in range(12):
            loss = product_of_many(net(torch.randn(8, 4)), factors if step == 9 else 5).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with Trace(tmp_path / "run") as trace:
        first = diagnose(trace).causes[0]
    assert (first.name, first.step) == ("log-of-zero", 9)


def test_a_value_lost_in_the_middle_is_written_with_what_came_right_before(tmp_path) -> None:
    torch.manual_seed(0)
    net = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    with Recorder(tmp_path / "run"):
        for step in range(12):
            value = net(torch.randn(8, 4))
            for _ in range(250):
                value = value.sin()
            value = value / (value * (step != 9))  # 0 in the denominator
            for _ in range(250):
                value = value.sin()
            loss = value.mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with Trace(tmp_path / "run") as trace:
        rows = trace.rows(
            "SELECT op, nan_count + inf_count AS lost FROM operators WHERE step = 9 AND trigger = 'nonfinite' ORDER BY seq"
        )
        first = diagnose(trace).causes[0]
    assert 0 < len(rows) <= 200
    assert next(row["op"] for row in rows if row["lost"]) == "Sin"
    assert "Div" in {row["op"] for row in rows}
    assert (first.name, first.step) == ("division-by-zero", 9)
