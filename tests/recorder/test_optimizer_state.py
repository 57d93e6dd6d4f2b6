"""What an optimizer keeps for each weight is measured after each step."""

import pytest
import torch
from torch import nn


def test_a_momentum_buffer_is_measured_by_the_name_of_its_weight(train) -> None:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    kept = []

    def note(step: int) -> None:
        kept.append(optimizer.state[model.weight]["momentum_buffer"].square().sum().item())

    done = train(model, lambda step: model(torch.randn(3, 4)).square().mean(), optimizer=optimizer, after=note)

    named = {name: number for number, (kind, name) in done.kinds().items() if kind == "optimizer_state"}
    assert set(named) == {"weight.momentum_buffer", "bias.momentum_buffer"}
    measured = [r["sum_sq"] for r in done.rows("tensor_stats") if r["tensor_id"] == named["weight.momentum_buffer"]]
    assert measured == pytest.approx(kept, rel=1e-4)
