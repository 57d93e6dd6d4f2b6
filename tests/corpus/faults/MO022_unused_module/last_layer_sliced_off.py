"""A training with the fault unused-module; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def wines(n=900, columns=11, classes=4):
    """A table of standardised measurements and a quality."""
    y = torch.randint(classes, (n,))
    return torch.randn(classes, columns)[y] * 1.2 + torch.randn(n, columns), y


def endless(loader):
    while True:
        yield from loader


def fit(model, optimizer, loader, steps, criterion=F.cross_entropy):
    model.train()
    for _, (x, y) in zip(range(steps), endless(loader), strict=False):
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


class Stack(nn.Module):
    """Residual layers, of which the last is left out by a slice."""

    def __init__(self, short):
        super().__init__()
        self.inp = nn.Linear(11, 32)
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(4))
        self.out = nn.Linear(32, 4)
        self.end = -1 if short else None

    def forward(self, x):
        h = self.inp(x)
        for layer in self.layers[: self.end]:
            h = h + F.silu(layer(h))
        return self.out(h)


def last_layer_sliced_off(s):
    x, y = wines()
    model = Stack(short=s == 0)
    fit(model, optim.Adam(model.parameters(), lr=2e-3), DataLoader(TensorDataset(x, y), 30, shuffle=True), 50)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    last_layer_sliced_off(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
