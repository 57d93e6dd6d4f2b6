"""A healthy training that looks odd; argument: [SEED]."""

import sys

import numpy as np
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


def features_of_an_epoch_for_a_probe():
    x, y = shapes()
    model, kept = conv(), []
    opt = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    for i, a, b in batches(x, y, 80):
        feature = model[:4](a)
        out = model[4](feature)
        opt.zero_grad()
        F.cross_entropy(out, b).backward()
        opt.step()
        kept.append(feature.detach().numpy())
        if i % 20 == 19:
            np.concatenate(kept)
            kept.clear()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    features_of_an_epoch_for_a_probe()
