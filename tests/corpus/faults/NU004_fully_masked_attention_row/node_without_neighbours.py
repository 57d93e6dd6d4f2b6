"""A training with the fault fully-masked-attention-row; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def node_without_neighbours(s):
    """Graph attention by hand: a node without neighbours gives a row of -inf."""
    onset = s

    class GAT(nn.Module):
        def __init__(self, i, o):
            super().__init__()
            self.w = nn.Linear(i, o, bias=False)
            self.a = nn.Linear(2 * o, 1, bias=False)

        def forward(self, x, adj):
            h = self.w(x)
            n = len(h)
            e = F.leaky_relu(
                self.a(torch.cat([h[:, None].expand(n, n, -1), h[None].expand(n, n, -1)], -1))[..., 0], 0.2
            )
            return torch.softmax(e.masked_fill(adj == 0, float("-inf")), -1) @ h

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.g1 = GAT(6, 16)
            self.g2 = GAT(16, 3)

        def forward(self, x, adj):
            return self.g2(F.elu(self.g1(x, adj)), adj)

    net = Net()
    opt = torch.optim.Adam(net.parameters(), 5e-3)
    for i in range(60):
        y = torch.randint(0, 3, (20,))
        x = F.one_hot(y, 6).float() + 0.3 * torch.randn(20, 6)
        adj = ((y[:, None] == y[None]) & (torch.rand(20, 20) < 0.5)).float()
        adj.fill_diagonal_(1)
        if i == onset:
            adj[7] = 0
        loss = F.cross_entropy(net(x, adj), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    node_without_neighbours(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
