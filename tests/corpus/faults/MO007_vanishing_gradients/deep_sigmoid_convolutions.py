"""A training with the fault vanishing-gradients; arguments: [ONSET] [SEED]."""

import math
import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def glyphs(n=480, size=12, classes=5):
    """Small grey pictures of bars in several directions, between 0 and 1."""
    y = torch.randint(classes, (n,))
    angle = y * math.pi / classes + torch.randn(n) * 0.05
    grid = torch.linspace(-1, 1, size)
    across = grid[None, :, None] * angle.sin()[:, None, None] - grid[None, None, :] * angle.cos()[:, None, None]
    return (torch.exp(-across.square() * 18) + 0.1 * torch.rand(n, size, size)).clamp(0, 1)[:, None], y


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


def deep_sigmoid_convolutions(s):
    layers = [nn.Conv2d(1, 6, 3, padding=1)]
    for _ in range(8):
        layers += [nn.Sigmoid() if s == 0 else nn.ReLU(), nn.Conv2d(6, 6, 3, padding=1)]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 5))
    x, y = glyphs()
    loader = DataLoader(TensorDataset(x, y), batch_size=24, shuffle=True)
    fit(model, optim.SGD(model.parameters(), lr=0.05), loader, 60)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    deep_sigmoid_convolutions(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
