"""A training with the fault parameters-not-in-optimizer; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


def learn(model, opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


class GraphNet(nn.Module):
    """Two rounds of messages over a normalised adjacency."""

    def __init__(self, width=12, hidden=24, classes=3):
        super().__init__()
        self.convs = nn.ModuleList([nn.Linear(width, hidden), nn.Linear(hidden, hidden)])
        self.readout = nn.Linear(hidden, classes)

    def forward(self, x, adj):
        for conv in self.convs:
            x = F.relu(adj @ conv(x))
        return self.readout(x)


def only_the_readout_is_optimised(s):
    """The optimizer of a graph network was given the parameters of the readout."""
    n = 90
    y = torch.arange(n) % 3
    x = torch.randn(3, 12)[y] + torch.randn(n, 12)
    adj = ((torch.rand(n, n) < 0.02) | ((y[:, None] == y) & (torch.rand(n, n) < 0.1))).float()
    adj = (adj + adj.T + torch.eye(n)).clamp(max=1)
    adj = adj / adj.sum(1, keepdim=True)
    model = GraphNet()
    opt = optim.Adam(model.readout.parameters() if s == 0 else model.parameters(), lr=1e-2)
    train = torch.rand(n) < 0.6
    for _ in range(80):
        learn(model, opt, F.cross_entropy(model(x, adj)[train], y[train]))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    only_the_readout_is_optimised(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
