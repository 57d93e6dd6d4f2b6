"""A training with the fault symmetric-init; arguments: [ONSET] [SEED]."""

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


class ConvNet(nn.Module):
    def __init__(self, classes=5, width=8, norm=True):
        super().__init__()
        self.conv1 = nn.Conv2d(1, width, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(width) if norm else nn.Identity()
        self.conv2 = nn.Conv2d(width, 2 * width, 3, padding=1, stride=2)
        self.bn2 = nn.BatchNorm2d(2 * width) if norm else nn.Identity()
        self.fc = nn.Linear(2 * width, classes)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x)))
        return self.fc(x.mean((2, 3)))


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


def filters_of_one_constant(s):
    """All filters begin alike, with a constant, and so they stay."""
    model = ConvNet(norm=False)
    if s == 0:
        for m in model.modules():
            if isinstance(m, (nn.Conv2d, nn.Linear)):
                nn.init.constant_(m.weight, 0.05)
                nn.init.zeros_(m.bias)
    x, y = glyphs()
    loader = DataLoader(TensorDataset(x, y), batch_size=24, shuffle=True)
    fit(model, optim.SGD(model.parameters(), lr=0.1, momentum=0.9), loader, 60)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    filters_of_one_constant(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
