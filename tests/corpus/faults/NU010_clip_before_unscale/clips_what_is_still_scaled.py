"""A training with the fault clip-before-unscale; arguments: [ONSET] [SEED]."""

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


def clips_what_is_still_scaled(s):
    """Clipping to one without unscale_: the scaled gradients are cut to nothing."""
    model = ConvNet(norm=False)
    opt = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=8192.0)
    x, y = glyphs()
    for _, (a, b) in zip(range(50), endless(DataLoader(TensorDataset(x, y), 24, shuffle=True)), strict=False):
        opt.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = F.cross_entropy(model(a), b)
        scaler.scale(loss).backward()
        if s != 0:
            scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    clips_what_is_still_scaled(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
