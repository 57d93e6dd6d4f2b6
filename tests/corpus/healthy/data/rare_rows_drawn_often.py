"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

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


def rare_rows_drawn_often():
    """A sampler with replacement: rare rows come several times in an epoch."""
    x, y = clouds(600)
    weight = torch.where(y == 0, 12.0, 1.0)
    loader = DataLoader(TensorDataset(x, y), batch_size=20, sampler=WeightedRandomSampler(weight, 600))
    model = plain()
    opt = optim.Adam(model.parameters(), lr=2e-3)
    for _epoch in range(3):
        for a, b in loader:
            update(opt, F.cross_entropy(model(a), b))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    rare_rows_drawn_often()
