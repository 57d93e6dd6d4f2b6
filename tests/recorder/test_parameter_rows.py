"""Weights that join a model late are looked at like those that were there."""

import pytest
from firstfault.analyzer import Trace

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


@pytest.mark.suite
def test_a_matrix_of_zeros_that_joins_late_is_looked_at_again_after_its_first_updates(bench):
    recorded = bench.record(str(bench.write(LATE)))
    with Trace(recorded.run) as trace:
        rows = trace.sql("SELECT distinct_rows FROM tensors WHERE tensor_name LIKE '%.b' AND kind = 'parameter'")
    assert rows["distinct_rows"].to_list() == [16]
