"""A training with the fault frozen-parameters; arguments: [ONSET] [SEED]."""

import math
import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def digits(n=800, classes=10, size=12):
    """Images of a bright stroke whose place and angle tell the class."""
    y = torch.randint(classes, (n,))
    grid = torch.linspace(-1, 1, size)
    angle = y.float() * math.pi / classes + torch.randn(n) * 0.03
    across = grid[None, :, None] * angle.sin()[:, None, None] - grid[None, None, :] * angle.cos()[:, None, None]
    return (torch.exp(-across.square() * 20) + torch.randn(n, size, size) * 0.1).unsqueeze(1), y


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
        self.drop = nn.Dropout(0.3)
        self.fc = nn.Linear(200, 10)

    def forward(self, x):
        return self.fc(self.drop(self.features(x).flatten(1)))


def frozen_by_hand(s):
    """The backbone was frozen for a warm start and never released, yet the optimizer holds it."""
    x, y = digits(1000)
    model = Small()
    if s == 0:
        for p in model.features.parameters():
            p.requires_grad = False
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for i in range(0, 900, 18):
        loss = F.cross_entropy(model(x[i : i + 18]), y[i : i + 18])
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    frozen_by_hand(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
