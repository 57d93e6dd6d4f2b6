"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.nn.utils import prune

torch.set_num_threads(1)


def clouds(n=640, width=10, classes=4, noise=1.0):
    y = torch.randint(classes, (n,))
    return torch.randn(classes, width)[y] * 1.5 + noise * torch.randn(n, width), y


def plain(width=10, hidden=48, out=4, act=nn.ReLU):
    return nn.Sequential(nn.Linear(width, hidden), act(), nn.Linear(hidden, hidden), act(), nn.Linear(hidden, out))


def pick(x, y, n=32):
    i = torch.randint(len(y), (n,))
    return x[i], y[i]


def update(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def prunes_in_three_rounds():
    """Two thirds, then nine tenths of the weights are set to zero; the loss jumps and recovers."""
    x, y = clouds()
    model = plain(hidden=96)
    opt = optim.Adam(model.parameters(), lr=3e-3)
    for step in range(120):
        if step in {40, 65, 90}:
            for m in model:
                if isinstance(m, nn.Linear):
                    prune.l1_unstructured(m, "weight", amount=0.5)
        a, b = pick(x, y)
        update(opt, F.cross_entropy(model(a), b))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    prunes_in_three_rounds()
