"""A training with the fault zero-lr; arguments: [ONSET] [SEED]."""

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


def decays_to_zero_too_early(s):
    """A linear decay whose total was computed from the wrong number of batches."""
    x, y = spirals(1600)
    net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
    opt = optim.Adam(net.parameters(), lr=2e-3)
    total = min(s, 100)
    sched = optim.lr_scheduler.LinearLR(opt, start_factor=1.0, end_factor=0.0, total_iters=total)
    for step in range(100):
        i = step * 16
        opt.zero_grad()
        F.cross_entropy(net(x[i : i + 16]), y[i : i + 16]).backward()
        opt.step()
        sched.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    decays_to_zero_too_early(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
