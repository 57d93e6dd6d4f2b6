"""A training with the fault symmetric-init; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def patterns(n=800, classes=5, width=20):
    y = torch.randint(classes, (n,))
    return torch.randn(classes, width)[y] + 0.8 * torch.randn(n, width), y


def loader(*tensors, size=32):
    data = DataLoader(TensorDataset(*tensors), size, shuffle=True, drop_last=True)
    while True:
        yield from data


def learn(model, opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def all_zero_recurrence(s):
    """Every weight of a network starts as zero."""
    x, y = patterns()
    model = nn.Sequential(nn.Linear(20, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 5))
    if s == 0:
        for p in model.parameters():
            nn.init.zeros_(p)
    opt = optim.Adam(model.parameters(), lr=2e-3)
    for _, (a, b) in zip(range(70), loader(x, y), strict=False):
        learn(model, opt, F.cross_entropy(model(a), b))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    all_zero_recurrence(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
