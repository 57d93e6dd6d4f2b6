"""A training with the fault scheduler-never-stepped; arguments: [ONSET] [SEED]."""

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


def scheduler_forgotten(s):
    """A schedule is built and never asked."""
    x, y = spirals(1600)
    net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
    opt = optim.AdamW(net.parameters(), lr=3e-3)
    sched = optim.lr_scheduler.OneCycleLR(opt, max_lr=3e-3, total_steps=80)
    for step in range(80):
        i = step * 20
        opt.zero_grad()
        F.cross_entropy(net(x[i : i + 20]), y[i : i + 20]).backward()
        opt.step()
        if s != 0:
            sched.step()
    print(sched.last_epoch)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    scheduler_forgotten(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
