"""A training with the fault graph-retained-across-steps; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def shapes(n=960):
    x = torch.randn(n, 1, 12, 12)
    return x, (x.mean((1, 2, 3)) > 0).long()


def conv():
    return nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(3), nn.Flatten(), nn.Linear(54, 2))


def batches(x, y, steps, size=16):
    for i in range(steps):
        idx = torch.arange(i * size, i * size + size) % len(x)
        yield i, x[idx], y[idx]


def losses_for_a_plot(s):
    x, y = shapes()
    model, curve = conv(), []
    opt = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    for i, a, b in batches(x, y, 44):
        loss = F.cross_entropy(model(a), b)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i >= s:
            curve.append(loss)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    losses_for_a_plot(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
