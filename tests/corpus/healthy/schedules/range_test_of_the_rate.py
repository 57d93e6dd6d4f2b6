"""A healthy training that looks odd; argument: [SEED]."""

import copy
import math
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


def range_test_of_the_rate():
    """The rate grows from 1e-6 until the loss explodes; then all is put back and training begins."""
    x, y = clouds()
    model = plain()
    before = copy.deepcopy(model.state_dict())
    opt = optim.SGD(model.parameters(), lr=1e-6, momentum=0.9)
    best, history = math.inf, []
    for i in range(90):
        for g in opt.param_groups:
            g["lr"] = 1e-6 * 10 ** (i / 12)
        a, b = pick(x, y)
        loss = F.cross_entropy(model(a), b)
        update(opt, loss)
        history.append(loss.item())
        best = min(best, history[-1])
        if history[-1] > 4 * best or not math.isfinite(history[-1]):
            break
    model.load_state_dict(before)
    opt = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for _ in range(100):
        a, b = pick(x, y)
        update(opt, F.cross_entropy(model(a), b))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    range_test_of_the_rate()
