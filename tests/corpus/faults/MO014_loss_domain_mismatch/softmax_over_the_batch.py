"""A training with the fault loss-domain-mismatch; arguments: [ONSET] [SEED]."""

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


def softmax_over_the_batch(s):
    """log_softmax along the samples in place of the classes."""
    x, y = wines()
    net = nn.Sequential(nn.Linear(11, 32), nn.ReLU(), nn.Linear(32, 4), nn.LogSoftmax(dim=0 if s == 0 else 1))
    fit(net, optim.Adam(net.parameters(), lr=3e-3), DataLoader(TensorDataset(x, y), 32, shuffle=True), 80, nn.NLLLoss())


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    softmax_over_the_batch(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
