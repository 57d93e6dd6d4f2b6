"""A training with the fault division-by-zero; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class GraphConv(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.lin = nn.Linear(a, b, bias=False)

    def forward(self, x, adj):
        degree = adj.sum(1)
        norm = degree.pow(-0.5)
        return norm[:, None] * (adj @ (norm[:, None] * self.lin(x)))


class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = GraphConv(6, 16)
        self.conv2 = GraphConv(16, 3)

    def forward(self, x, adj):
        return self.conv2(F.relu(self.conv1(x, adj)), adj)


def isolated_node(s):
    """Graph convolution; one graph has a node without a neighbour, so its degree is zero."""
    net = GCN()
    opt = torch.optim.Adam(net.parameters(), lr=1e-2, weight_decay=5e-4)
    for step in range(60):
        y = torch.randint(3, (20,))
        adj = ((y[:, None] == y) & (torch.rand(20, 20) < 0.8)).float()
        adj = ((adj + adj.T) > 0).float()
        adj.fill_diagonal_(1)
        if step == s:
            adj[4] = 0
            adj[:, 4] = 0
        x = F.one_hot(y, 6).float() + 0.5 * torch.randn(20, 6)
        loss = F.cross_entropy(net(x, adj), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    isolated_node(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
