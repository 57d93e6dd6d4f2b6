"""A training with the fault vanishing-gradients; arguments: [ONSET] [SEED]."""

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


def twelve_sigmoids(s):
    """A deep perceptron of sigmoids, without a residual or a norm."""
    layers = [nn.Linear(20, 24), nn.Sigmoid()]
    for _ in range(11):
        layers += [nn.Linear(24, 24), nn.Sigmoid()]
    if s != 0:
        layers = [nn.Linear(20, 24), nn.Sigmoid()]
    model = nn.Sequential(*layers, nn.Linear(24, 5))
    opt = optim.Adam(model.parameters(), lr=2e-3)
    for _, (a, b) in zip(range(80), loader(*patterns()), strict=False):
        learn(model, opt, F.cross_entropy(model(a), b))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    twelve_sigmoids(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
