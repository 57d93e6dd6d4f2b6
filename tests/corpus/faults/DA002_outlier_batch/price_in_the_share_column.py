"""A training with the fault outlier-batch; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def price_in_the_share_column(s):
    """Ratings regression; one batch has a rating of 10000 (a price in the rating column): target outlier."""
    onset = s

    class MF(nn.Module):
        def __init__(self):
            super().__init__()
            self.u = nn.Embedding(80, 8)
            self.v = nn.Embedding(90, 8)
            self.dense = nn.Linear(3, 1)

        def forward(self, u, v, d):
            return (self.u(u) * self.v(v)).sum(1) + self.dense(d)[:, 0]

    net = MF()
    opt = torch.optim.SGD(net.parameters(), 1e-3)
    for i in range(120):
        u, v = torch.randint(0, 80, (64,)), torch.randint(0, 90, (64,))
        d = torch.rand(64, 3)
        y = ((u + v) % 5).float()
        if i == onset:
            d[7] = torch.tensor([0.5, 84_000.0, 0.1])
        loss = (net(u, v, d) - y).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    price_in_the_share_column(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
