"""A training with the fault constant-input; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def blobs(n=640, width=12, classes=4, spread=1.0):
    centres = torch.randn(classes, width) * 3
    y = torch.randint(classes, (n,))
    return centres[y] + torch.randn(n, width) * spread, y


def mlp(width=12, hidden=24, classes=4):
    return nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, classes))


def columns_become_one_value(s):
    x, y = blobs()
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), 0.05)
    for i in range(s + 12):
        at = torch.randint(len(x), (32,))
        a = x[at]
        if i >= s:
            a = torch.full_like(a, 0.37)
        opt.zero_grad()
        F.cross_entropy(model(a), y[at]).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    columns_become_one_value(int(sys.argv[1]) if len(sys.argv) > 1 else 14)
