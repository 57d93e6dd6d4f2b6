"""Operators of a loss that are given what they do not take are seen at their step."""

from typing import Any

import pytest
from firstfault.analyzer import Trace, diagnose

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


SHORT = """
import torch
from torch import nn
torch.manual_seed(0)
net = nn.Linear(4, 5)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for i, frames in enumerate([10] * 4 + [4] * 8):
    scores = net(torch.randn(frames, 8, 4)).log_softmax(-1)
    lengths = torch.tensor([2, 3, 4, 5, 6, 2, 3, 4])
    targets, given = torch.randint(1, 5, (8, 6)), torch.full((8,), frames)
    if i % 2:
        lengths, given = tuple(lengths.tolist()), tuple(given.tolist())
    loss = nn.functional.ctc_loss(scores, targets, given, lengths, zero_infinity=True)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


def test_targets_that_do_not_fit_into_their_input_are_counted_where_their_loss_is_made_zero(bench):
    recorded = bench.record(str(bench.write(SHORT)))
    with Trace(recorded.run) as trace:
        rows = trace.sql("SELECT step, zero_count, min, max FROM operators WHERE saved = 'lengths' ORDER BY step")
        causes = [(c.name, c.step, c.severity) for c in diagnose(trace).causes]
    assert rows.rows()[:8] == [(i, 0, 10.0, 6.0) for i in range(4)] + [(i, 2, 4.0, 6.0) for i in range(4, 8)]
    assert causes[0] == ("infeasible-ctc-target", 4, "error")


def test_scores_above_zero_that_a_ctc_loss_takes_for_logarithms_are_seen_at_that_step(bench):
    recorded = bench.record(str(bench.write(SPOKEN)))
    with Trace(recorded.run) as trace:
        rows = trace.sql(
            "SELECT step, max > 0 FROM operators WHERE op = 'CtcLoss' AND saved = 'log_probs' ORDER BY step"
        )
    assert rows.rows() == [(i, True) for i in range(13, 20)]
