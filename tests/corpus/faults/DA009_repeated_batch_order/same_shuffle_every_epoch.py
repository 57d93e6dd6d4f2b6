"""A training with the fault repeated-batch-order; arguments: [ONSET] [SEED]."""

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


def same_shuffle_every_epoch(s):
    x, y = blobs(n=320)
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), 0.05)
    for _ in range(3):
        mixed = torch.Generator().manual_seed(7)
        for a, b in DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True, generator=mixed):
            opt.zero_grad()
            F.cross_entropy(model(a), b).backward()
            opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    same_shuffle_every_epoch(int(sys.argv[1]) if len(sys.argv) > 1 else 14)
