"""What is seen of the code that puts a loss together, and of weights that join a model late."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from firstfault.analyzer import Trace
from firstfault.recorder import Recorder
from firstfault.recorder.autograd import graph
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

LATE = """
import torch
from torch import nn
class Adapter(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base, self.a, self.b = base, nn.Parameter(torch.randn(2, 16)), nn.Parameter(torch.zeros(16, 2))
    def forward(self, x):
        return self.base(x) + x @ self.a.T @ self.b.T
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 16), nn.Linear(16, 16), nn.Linear(16, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for i in range(40):
    if i == 20:
        net[1] = Adapter(net[1])
        opt.add_param_group({"params": [net[1].a, net[1].b]})
    x = torch.randn(8, 4)
    loss = (net(x)[:, 0] - x.sum(1)).square().mean()
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


@pytest.mark.parametrize("loss", ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"])
@pytest.mark.filterwarnings("ignore:Using a target size")
def test_every_loss_function_that_stretches_a_prediction_is_seen(loss: str) -> None:
    prediction, target = torch.randn(5, 1, requires_grad=True), torch.randn(5)
    assert graph.broadcasts(getattr(nn.functional, loss)(prediction, target), 0) == ([5, 1], [5, 5])


@pytest.mark.parametrize(
    "own",
    [
        lambda x: nn.functional.normalize(x, dim=1),
        lambda x: x - x.logsumexp(1, keepdim=True),
        lambda x: x - x.mean(0),
        lambda x: (x[:, :1] - x[:, 1]).relu(),
    ],
    ids=["normalised", "log_softmax", "centred", "pairs"],
)
def test_a_square_output_beside_a_number_of_its_own_for_each_row_is_no_broadcast(own: Any) -> None:
    assert graph.broadcasts((own(torch.randn(5, 5, requires_grad=True)) - torch.eye(5)).square().mean(), 0) is None


@pytest.mark.suite
def test_a_matrix_of_zeros_that_joins_late_is_looked_at_again_after_its_first_updates(bench):
    recorded = bench.record(str(bench.write(LATE)))
    with Trace(recorded.run) as trace:
        rows = trace.sql("SELECT distinct_rows FROM tensors WHERE tensor_name LIKE '%.b' AND kind = 'parameter'")
    assert rows["distinct_rows"].to_list() == [16]


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

THAWED = """
import torch
from torch import nn
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
net[0].requires_grad_(False)
opt = torch.optim.Adam(net.parameters(), lr=0.01)
for i in range(12):
    if i == 7:
        net[0].requires_grad_(True)
    loss = net(torch.randn(8, 4)).square().mean()
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


def test_the_counter_of_an_optimizer_goes_on_when_its_first_weights_are_thawed(bench):
    recorded = bench.record(str(bench.write(THAWED)))
    with Trace(recorded.run) as trace:
        counters = trace.sql("SELECT state_step FROM param_groups ORDER BY step")["state_step"].to_list()
    assert counters == [float(i + 1) for i in range(12)]


def test_a_likelihood_that_is_made_small_and_an_error_that_is_made_large_are_seen():
    x, y = torch.randn(6, 3, requires_grad=True), torch.tensor([0, 1, 2, 0, 1, 2])
    logp = x.log_softmax(1)
    wrong = {
        torch.nn.functional.logsigmoid(x).mean(): ("LogSigmoid", "probability"),
        torch.sigmoid(x).log().sum(): ("Log", "probability"),
        logp.gather(1, y[:, None]).mean(): ("Gather", "probability"),
        logp[range(6), y].squeeze().mean(): ("Index", "probability"),
        -(x - 1).abs().mean(): ("Neg", "absolute"),
    }
    right = [-torch.nn.functional.logsigmoid(x).mean(), (logp[range(6), y] * x[:, 0]).mean(), x.log_softmax(1).mean()]
    assert [graph.wrong_way(loss) for loss in wrong] == list(wrong.values())
    assert [graph.wrong_way(loss) for loss in right] == [None] * 3


def test_a_softmax_before_the_loss_is_seen_however_it_is_written():
    scores, labels = torch.randn(8, 5, requires_grad=True), torch.arange(8) % 5

    def in_loss(given: torch.Tensor) -> str | None:
        loss = nn.functional.cross_entropy(given, labels)
        return next(graph.activated_twice(node) for node, _ in graph.loss_nodes(loss))

    powers = scores.exp()
    assert in_loss(scores.softmax(1)) == in_loss(scores.log_softmax(1).exp()) == "softmax"
    assert in_loss(powers / powers.sum(1, keepdim=True)) == "softmax"
    assert in_loss(scores) is in_loss(scores.log_softmax(1)) is None
    assert in_loss(powers) is in_loss(powers / scores.exp().sum(1, keepdim=True).detach()) is None


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
