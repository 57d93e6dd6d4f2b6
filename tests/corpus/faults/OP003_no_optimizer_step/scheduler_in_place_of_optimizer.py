"""A training with the fault no-optimizer-step; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def clusters(n, d, classes, spread=1.0):
    """Points round one centre for each class."""
    centres = torch.randn(classes, d) * 2
    y = torch.randint(classes, (n,))
    return centres[y] + spread * torch.randn(n, d), y


def scheduler_in_place_of_optimizer(s):
    """Of the two lines at the end of the loop the wrong one was removed."""
    x, y = clusters(1500, 10, 3)
    net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 3))
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.99)
    for step in range(60):
        i = step * 25
        opt.zero_grad()
        F.cross_entropy(net(x[i : i + 25]), y[i : i + 25]).backward()
        if s != 0:
            opt.step()
        sched.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    scheduler_in_place_of_optimizer(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
