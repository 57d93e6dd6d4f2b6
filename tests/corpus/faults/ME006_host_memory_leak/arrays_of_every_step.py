"""A training with the fault host-memory-leak; arguments: [ONSET] [SEED]."""

import sys

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


HEAT = {}


def blobs(n=960, width=14, classes=3):
    y = torch.randint(classes, (n,))
    return torch.randn(classes, width)[y] + 0.5 * torch.randn(n, width), y


def mlp(width=14, classes=3):
    return nn.Sequential(nn.Linear(width, 40), nn.GELU(), nn.Linear(40, classes))


def batches(x, y, steps, size=16):
    for i in range(steps):
        idx = torch.arange(i * size, i * size + size) % len(x)
        yield i, x[idx], y[idx]


def arrays_of_every_step(s):
    x, y = blobs()
    model = mlp()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for i, a, b in batches(x, y, 80):
        if i >= s:
            HEAT[i] = np.full((512, 320), float(i))
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    arrays_of_every_step(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
