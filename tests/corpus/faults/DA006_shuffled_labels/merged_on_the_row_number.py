"""A training with the fault shuffled-labels; arguments: [ONSET] [SEED]."""

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


def merged_on_the_row_number(s):
    """The table was sorted before the labels were merged into it by position."""
    x, y = wines(1600)
    if s == 0:
        x = x[x[:, 3].argsort()][torch.randperm(len(x))]
    net = nn.Sequential(nn.Linear(11, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 4))
    loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True, drop_last=True)
    fit(net, optim.SGD(net.parameters(), lr=0.05, momentum=0.9), loader, 220)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    merged_on_the_row_number(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
