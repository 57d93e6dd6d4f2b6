"""A training with the fault scheduler-stepped-too-often; arguments: [ONSET] [SEED]."""

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


def scheduler_per_microbatch(s):
    """The scheduler stands one level too deep."""
    x, y = spirals(2400)
    net = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 3))
    opt = optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    sched = optim.lr_scheduler.CosineAnnealingLR(opt, T_max=50)
    for step in range(50):
        opt.zero_grad()
        for micro in range(3):
            i = (step * 3 + micro) * 16
            (F.cross_entropy(net(x[i : i + 16]), y[i : i + 16]) / 3).backward()
            if s == 0:
                sched.step()
        opt.step()
        if s != 0:
            sched.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    scheduler_per_microbatch(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
