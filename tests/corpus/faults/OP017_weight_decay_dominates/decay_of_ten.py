"""A training with the fault weight-decay-dominates; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


def spirals(n, turns=1.2):
    """Three spirals in the plane, with cosines of random directions as further columns."""
    y = torch.randint(3, (n,))
    r = torch.rand(n) + 0.1
    t = r * turns * 6.28 + y * 2.09 + torch.randn(n) * 0.05
    xy = torch.stack([r * t.cos(), r * t.sin()], 1)
    return torch.cat([xy, torch.cos(xy @ torch.randn(2, 6) * 3)], 1), y


def decay_of_ten(s):
    """AdamW with a weight decay from a paper that multiplies it otherwise."""
    x, y = spirals(2000)
    net = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3))
    opt = optim.AdamW(net.parameters(), lr=2e-3, weight_decay=20.0 if s == 0 else 0.01)
    for i in range(0, 2000, 20):
        opt.zero_grad()
        F.cross_entropy(net(x[i : i + 20]), y[i : i + 20]).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    decay_of_ten(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
