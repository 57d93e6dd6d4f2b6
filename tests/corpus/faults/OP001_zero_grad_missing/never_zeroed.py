"""A training with the fault zero-grad-missing; arguments: [ONSET] [SEED]."""

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


def never_zeroed(s):
    """No zero_grad anywhere."""
    x, y = clusters(1500, 10, 3)
    net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 3))
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
    for step in range(60):
        i = step * 25
        if s != 0:
            opt.zero_grad()
        F.cross_entropy(net(x[i : i + 25]), y[i : i + 25]).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    never_zeroed(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
