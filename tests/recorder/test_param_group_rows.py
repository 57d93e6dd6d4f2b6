"""The rows of an optimizer's groups."""

from firstfault.analyzer import Trace

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


def test_the_counter_of_an_optimizer_goes_on_when_its_first_weights_are_thawed(bench):
    recorded = bench.record(str(bench.write(THAWED)))
    with Trace(recorded.run) as trace:
        counters = trace.sql("SELECT state_step FROM param_groups ORDER BY step")["state_step"].to_list()
    assert counters == [float(i + 1) for i in range(12)]
