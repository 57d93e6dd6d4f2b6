"""A training with the fault accumulation-not-normalised; arguments: [ONSET] [SEED]."""

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


def sum_over_microbatches(s):
    """Four micro-batches whose mean losses are added up."""
    x, y = spirals(3200)
    net = nn.Sequential(nn.Linear(8, 64), nn.GELU(), nn.Linear(64, 3))
    opt = optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
    accumulation_steps = 4
    for i in range(200):
        xb, yb = x[i * 16 : i * 16 + 16], y[i * 16 : i * 16 + 16]
        loss = F.cross_entropy(net(xb), yb)
        if s != 0:
            loss = loss / accumulation_steps
        loss.backward()
        if (i + 1) % accumulation_steps == 0:
            opt.step()
            opt.zero_grad()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    sum_over_microbatches(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
