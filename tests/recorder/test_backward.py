"""What is seen at backward of the code that puts a loss together."""

import pytest
import torch
import torch.nn.functional as F
from firstfault.analyzer import Trace
from firstfault.recorder import Recorder
from torch import nn

pytestmark = pytest.mark.usefixtures("objects_of_the_test_alone")

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


def test_labels_that_the_script_masks_in_place_are_counted_as_they_reach_the_loss(bench):
    recorded = bench.record(str(bench.write(LABELS)))
    with Trace(recorded.run) as trace:
        rows = trace.sql("SELECT step, classes, ignored_count, out_of_range_count FROM batches WHERE role = 'target'")
        faults = trace.sql("SELECT message FROM events WHERE event = 'recorder-fault'")
    assert rows.sort("step").rows() == [(i, 3, 8 if i >= 13 else 0, 0) for i in range(24)]
    assert faults.is_empty()


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


def test_what_is_lost_between_the_calls_of_two_models_is_looked_at(tmp_path):
    torch.manual_seed(0)
    policy, value = nn.Linear(4, 2), nn.Linear(6, 1)
    optimizer = torch.optim.SGD([*policy.parameters(), *value.parameters()], 1e-2)
    with Recorder(tmp_path / "run"):
        for most in (0.5, 0.5, 0.5, 2.0):
            x = 3 * torch.randn(8, 4)
            action = most * policy(x).tanh()
            log_prob = -torch.log(1 - action.square() + 1e-6).sum(1)
            loss = (log_prob - value(torch.cat([x, action], 1))[:, 0]).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with Trace(tmp_path / "run") as trace:
        rows = trace.sql("SELECT op, saved, min FROM operators WHERE step = 3 AND trigger = 'nonfinite'").rows()
    assert [least < 0 for op, saved, least in rows if (op, saved) == ("Log", "self")] == [True]
    assert not [row for row in rows if row[0] == "Addmm"]  # which modules have made
