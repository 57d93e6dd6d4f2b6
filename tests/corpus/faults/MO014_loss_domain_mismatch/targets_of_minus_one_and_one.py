"""A training with the fault loss-domain-mismatch; arguments: [ONSET] [SEED]."""

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


def targets_of_minus_one_and_one(s):
    x, y = blobs(classes=2)
    model = mlp(classes=1)
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for _, (a, b) in zip(range(30), forever(x, y), strict=False):
        opt.zero_grad()
        F.binary_cross_entropy_with_logits(model(a).squeeze(1), b.float() * 2 - 1).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    targets_of_minus_one_and_one(int(sys.argv[1]) if len(sys.argv) > 1 else 14)
