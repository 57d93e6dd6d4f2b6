"""Operators of a loss that are given what they do not take are seen at their step."""

from typing import Any

import pytest
from firstfault.analyzer import Trace

LOOP = """
import torch
from torch import nn
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for i in range(24):
    x = torch.randn(8, 4)
    y = x.sum(1)
    loss = {loss}
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


def broadcasts(bench: Any, loss: str) -> list[int]:
    """Steps in which a stretched prediction was seen."""
    recorded = bench.record(str(bench.write(LOOP.format(loss=loss))))
    with Trace(recorded.run) as trace:
        return trace.sql("SELECT step FROM operators WHERE op = 'Broadcast' ORDER BY step")["step"].to_list()


def test_a_squeeze_that_is_lost_in_the_middle_is_seen_at_that_step(bench):
    assert broadcasts(bench, "((net(x) if i >= 13 else net(x)[:, 0]) - y).square().mean()")[0] == 13


@pytest.mark.suite
def test_scores_that_are_compared_in_pairs_are_no_broadcast(bench):
    pairs = "nn.functional.softplus((lambda s: s - s.T)(net(x)) * torch.sign(y[None] - y[:, None])).mean()"
    assert broadcasts(bench, pairs) == []


SPOKEN = """
import torch
from torch import nn
torch.manual_seed(0)
net = nn.Linear(4, 5)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
ctc = nn.CTCLoss()
for i in range(20):
    scores = net(torch.randn(10, 2, 4)).log_softmax(-1)
    if i >= 13:
        scores = scores + 2.5
    loss = ctc(scores, torch.tensor([[1, 2], [3, 4]]), torch.tensor([10, 10]), torch.tensor([2, 2]))
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


def test_scores_above_zero_that_a_ctc_loss_takes_for_logarithms_are_seen_at_that_step(bench):
    recorded = bench.record(str(bench.write(SPOKEN)))
    with Trace(recorded.run) as trace:
        rows = trace.sql(
            "SELECT step, max > 0 FROM operators WHERE op = 'CtcLoss' AND saved = 'log_probs' ORDER BY step"
        )
    assert rows.rows() == [(i, True) for i in range(13, 20)]
