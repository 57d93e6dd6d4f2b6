"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def clouds(n=640, width=10, classes=4, noise=1.0):
    y = torch.randint(classes, (n,))
    return torch.randn(classes, width)[y] * 1.5 + noise * torch.randn(n, width), y


def plain(width=10, hidden=48, out=4, act=nn.ReLU):
    return nn.Sequential(nn.Linear(width, hidden), act(), nn.Linear(hidden, hidden), act(), nn.Linear(hidden, out))


def accumulates_with_a_remainder():
    """Four batches make a step, and what is left at the end of the epoch makes one too."""
    x, y = clouds(360)
    model = plain(act=nn.GELU)
    opt = optim.AdamW(model.parameters(), lr=3e-3)
    loader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)
    for _epoch in range(4):
        for i, (a, b) in enumerate(loader):
            left = len(loader) % 4 if i >= len(loader) - len(loader) % 4 else 4
            (F.cross_entropy(model(a), b) / left).backward()
            if i % 4 == 3 or i == len(loader) - 1:
                opt.step()
                opt.zero_grad()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    accumulates_with_a_remainder()
