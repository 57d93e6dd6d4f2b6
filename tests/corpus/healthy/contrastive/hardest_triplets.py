"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

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


def hardest_triplets():
    """A margin that most triplets keep soon: whole batches give a loss and gradients of exactly zero."""
    x, y = clouds(noise=0.4)
    model = plain(10, 48, 8)
    opt = optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(120):
        a, b = pick(x, y, 24)
        z = F.normalize(model(a), dim=1)
        d = 1 - z @ z.T
        same = b[:, None] == b[None]
        near, far = (d * same).max(1).values, (d + 9 * same).min(1).values
        update(opt, F.relu(near - far + 0.2).mean())


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    hardest_triplets()
