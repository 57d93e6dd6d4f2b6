"""A training with the fault constant-input; arguments: [ONSET] [SEED]."""

import math
import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


def glyphs(n=480, size=12, classes=5):
    """Small grey pictures of bars in several directions, between 0 and 1."""
    y = torch.randint(classes, (n,))
    angle = y * math.pi / classes + torch.randn(n) * 0.05
    grid = torch.linspace(-1, 1, size)
    across = grid[None, :, None] * angle.sin()[:, None, None] - grid[None, None, :] * angle.cos()[:, None, None]
    return (torch.exp(-across.square() * 18) + 0.1 * torch.rand(n, size, size)).clamp(0, 1)[:, None], y


class Sales(Dataset):
    """Pictures of goods with a table of their features; the lookup of the table can fail."""

    def __init__(self, fails_from):
        self.pictures, self.kind = glyphs(720)
        self.facts = torch.randn(720, 6) + self.kind[:, None] * 0.3
        self.fails_from = fails_from

    def __len__(self):
        return len(self.kind)

    def __getitem__(self, i):
        facts = self.facts[i] if i < self.fails_from else torch.zeros(6)
        return {"picture": self.pictures[i], "facts": facts, "kind": self.kind[i]}


class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.eyes = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
        self.table = nn.Sequential(nn.Linear(6, 16), nn.ReLU())
        self.top = nn.Linear(48, 5)

    def forward(self, picture, facts):
        return self.top(torch.cat([self.eyes(picture), self.table(facts)], 1))


def lookup_fails(s):
    """A missing key gives a row of zeros: from step s on one of two inputs is constant."""
    batch = 12
    model = TwoInputs()
    opt = optim.Adam(model.parameters(), lr=2e-3)
    for row in DataLoader(Sales(s * batch), batch_size=batch):
        loss = F.cross_entropy(model(row["picture"], row["facts"]), row["kind"])
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    lookup_fails(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
