"""A training with the fault exploding-activations; arguments: [ONSET] [SEED]."""

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


def standard_normal_weights(s):
    """Weights of standard deviation one in a network of six layers."""
    layers = []
    for i, o in [(11, 96), (96, 96), (96, 96), (96, 96), (96, 96)]:
        layers += [nn.Linear(i, o), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(96, 4))
    if s == 0:
        for m in model:
            if isinstance(m, nn.Linear):
                nn.init.normal_(m.weight)
    x, y = wines()
    fit(model, optim.Adam(model.parameters(), lr=1e-3), DataLoader(TensorDataset(x, y), 32, shuffle=True), 50)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    standard_normal_weights(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
