"""A training with the fault killed-by-signal; arguments: [ONSET] [SEED]."""

import os
import signal
import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


def killed_from_outside(s):
    """Something on the machine kills the training while it loads data."""
    net = nn.Sequential(nn.Linear(7, 24), nn.ReLU(), nn.Linear(24, 1))
    opt = optim.Adam(net.parameters(), lr=1e-2)
    for step in range(100):
        x = torch.randn(32, 7)
        if step == s:
            os.kill(os.getpid(), signal.SIGKILL)
        opt.zero_grad()
        F.mse_loss(net(x), x.sum(1, keepdim=True)).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    killed_from_outside(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
