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


def update(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def slow_to_start():
    """A small network of sigmoids stays at the entropy of the labels for a while before it learns."""
    x, y = clouds(800, noise=0.5)
    model = plain(act=nn.Sigmoid)
    opt = optim.SGD(model.parameters(), lr=0.4)
    for _ in range(400):
        i = torch.randint(800, (32,))
        update(opt, F.cross_entropy(model(x[i]), y[i]))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    slow_to_start()
