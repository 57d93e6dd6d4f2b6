"""A training with the fault shuffled-labels; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def blobs(n=640, width=12, classes=4, spread=1.0):
    centres = torch.randn(classes, width) * 3
    y = torch.randint(classes, (n,))
    return centres[y] + torch.randn(n, width) * spread, y


def mlp(width=12, hidden=24, classes=4):
    return nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, classes))


def forever(x, y, size=16):
    while True:
        yield from DataLoader(TensorDataset(x, y), batch_size=size, shuffle=True, drop_last=True)


def labels_of_another_file(s):
    x, y = blobs(n=2000)
    y = y[torch.randperm(len(y))]
    model = mlp()
    opt = torch.optim.Adam(model.parameters(), 1e-2)
    for _, (a, b) in zip(range(150), forever(x, y, 32), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    labels_of_another_file(int(sys.argv[1]) if len(sys.argv) > 1 else 14)
