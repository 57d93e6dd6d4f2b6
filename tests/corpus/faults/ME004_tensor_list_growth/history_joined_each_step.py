"""A training with the fault tensor-list-growth; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def blobs(n=960, width=14, classes=3):
    y = torch.randint(classes, (n,))
    return torch.randn(classes, width)[y] + 0.5 * torch.randn(n, width), y


def mlp(width=14, classes=3):
    return nn.Sequential(nn.Linear(width, 40), nn.GELU(), nn.Linear(40, classes))


def batches(x, y, steps, size=16):
    for i in range(steps):
        idx = torch.arange(i * size, i * size + size) % len(x)
        yield i, x[idx], y[idx]


def history_joined_each_step(s):
    x, y = blobs()
    model, seen = mlp(), torch.zeros(0, 256)
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for i, a, b in batches(x, y, 70):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()
        if i >= s:
            seen = torch.cat([seen, torch.randn(1024, 256)])


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    history_joined_each_step(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
