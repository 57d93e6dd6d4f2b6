"""What is seen at backward of the code that puts a loss together."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from firstfault.analyzer import Trace
from firstfault.recorder import Recorder
from torch import nn

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


LABELS = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
x = torch.randn(96, 5, 4)
data = TensorDataset(x, (x.sum(2) > 0).long() + 1)
net = nn.Linear(4, 3)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for i, (x, y) in enumerate(DataLoader(data, 4)):
    if i >= 13:
        y[:, :2] = -100
    loss = nn.functional.cross_entropy(net(x).flatten(0, 1), y.flatten())
    if i % 2:
        loss = sum(((p - 1) ** 2).sum() * 0.01 for p in net.parameters()) + loss * loss
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


def test_labels_that_the_script_masks_in_place_are_counted_as_they_reach_the_loss(bench):
    recorded = bench.record(str(bench.write(LABELS)))
    with Trace(recorded.run) as trace:
        rows = trace.sql("SELECT step, classes, ignored_count, out_of_range_count FROM batches WHERE role = 'target'")
        faults = trace.sql("SELECT message FROM events WHERE event = 'recorder-fault'")
    assert rows.sort("step").rows() == [(i, 3, 8 if i >= 13 else 0, 0) for i in range(24)]
    assert faults.is_empty()


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


def test_a_loss_that_weighs_its_classes_is_told(tmp_path):
    x, y = torch.randn(16, 6), torch.randint(3, (16,))
    losses = {
        "plain": lambda out: F.cross_entropy(out, y),
        "classes": lambda out: F.cross_entropy(out, y, weight=torch.ones(3)),
        "binary": lambda out: F.binary_cross_entropy_with_logits(out[:, 0], (y > 0).float()),
        "positive": lambda out: F.binary_cross_entropy_with_logits(
            out[:, 0], (y > 0).float(), pos_weight=torch.ones(1)
        ),
    }
    told = {}
    for name, loss in losses.items():
        model = nn.Linear(6, 3)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        with Recorder(tmp_path / name):
            for _ in range(3):
                optimizer.zero_grad()
                loss(model(x)).backward()
                optimizer.step()
        with Trace(tmp_path / name) as trace:
            told[name] = {row["weighted"] for row in trace.rows("FROM batches WHERE role = 'target'")}
    assert told == {"plain": {False}, "classes": {True}, "binary": {False}, "positive": {True}}
