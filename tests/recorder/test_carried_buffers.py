"""Buffers that are made of their own value of the step before, with its graph."""

import pytest
import torch
from torch import nn


class Centred(nn.Module):
    """Follows the mean of what its layer gives."""

    def __init__(self, update):
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.update = update
        self.register_buffer("center", torch.zeros(3))

    def forward(self, x):
        h = self.layer(x)
        self.update(self, h.mean(0))
        return h


def carried(module, mean):
    module.center = 0.9 * module.center + 0.1 * mean


def without_graph(module, mean):
    module.center = 0.9 * module.center + 0.1 * mean.detach()


def last_only(module, mean):
    module.center = mean


def cut_now_and_then(module, mean):
    module.steps = getattr(module, "steps", 0) + 1
    old = module.center if module.steps % 4 else module.center.detach()
    module.center = 0.9 * old + 0.1 * mean


@pytest.mark.parametrize(
    ("update", "told"),
    [(carried, True), (without_graph, False), (last_only, False), (cut_now_and_then, False)],
)
def test_a_buffer_that_leads_into_its_earlier_values_is_told_once(train, update, told):
    model = Centred(update)
    done = train(model, lambda step: model(torch.randn(8, 4)).square().mean(), steps=24)

    events = [row for row in done.rows("events") if row["event"] == "buffer-carried"]
    assert len(events) == told
    if told:
        assert '"buffer":"center"' in events[0]["detail"].replace(" ", "")
        assert '"first":0' in events[0]["detail"].replace(" ", "")
