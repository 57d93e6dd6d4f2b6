"""Axes that a model mixes are told once for each kind of graph."""

import pytest
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.body, self.head = how, nn.Conv1d(3, 6, 1), nn.Linear(6, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.body(x)
        x = x.reshape(len(x), -1, 6) if self.how == "view" else x.transpose(1, 2)
        return self.head(x)


@pytest.mark.parametrize(("how", "told"), [("view", 1), ("transpose", 0)])
def test_a_view_in_the_place_of_a_transpose_is_told(how: str, told: int, train) -> None:
    model = Net(how)
    done = train(model, lambda step: model(torch.randn(5, 3, 7)).square().mean())
    assert len(done.events("axes-mixed")) == told
