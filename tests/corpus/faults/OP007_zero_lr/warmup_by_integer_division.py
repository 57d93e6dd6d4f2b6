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


def warmup_by_integer_division(s):
    """`step // warmup` is zero during all of the warm-up."""
    x, y = spirals(1000)
    net = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 3))
    opt = optim.SGD(net.parameters(), lr=0.1)
    warmup = 30
    for step in range(60):
        for group in opt.param_groups:
            group["lr"] = 0.1 * min(1, (step + 1) // warmup if s == 0 else (step + 1) / warmup)
        i = step * 16
        opt.zero_grad()
        F.cross_entropy(net(x[i : i + 16]), y[i : i + 16]).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    warmup_by_integer_division(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
