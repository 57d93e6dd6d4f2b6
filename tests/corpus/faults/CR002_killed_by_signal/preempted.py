"""A training with the fault killed-by-signal; arguments: [ONSET] [SEED]."""

import os
import signal
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


def preempted(s):
    """The scheduler of the cluster ends the job."""
    x, y = clusters(1500, 10, 3)
    net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 3))
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    for step in range(60):
        i = step * 25
        opt.zero_grad()
        F.cross_entropy(net(x[i : i + 25]), y[i : i + 25]).backward()
        if step == s:
            os.kill(os.getpid(), signal.SIGTERM)
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    preempted(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
