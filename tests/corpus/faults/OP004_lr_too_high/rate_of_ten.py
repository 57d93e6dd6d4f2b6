"""A training with the fault lr-too-high; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def stripes(n=800, classes=6):
    """Gratings of six directions with a random phase."""
    y = torch.randint(classes, (n,))
    angle = y * torch.pi / classes
    grid = torch.stack(torch.meshgrid(torch.arange(16.0), torch.arange(16.0), indexing="ij"))
    wave = (angle.cos()[:, None, None] * grid[0] + angle.sin()[:, None, None] * grid[1]) * 0.9
    return (wave + 6.3 * torch.rand(n, 1, 1)).sin()[:, None] + 0.2 * torch.randn(n, 1, 16, 16), y


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
        )

    def forward(self, x):
        return F.relu(x + self.body(x))


def small_resnet(width=12, classes=6):
    stem = [nn.Conv2d(1, width, 3, stride=2, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
    tail = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes)]
    return nn.Sequential(*stem, Residual(width), Residual(width), *tail)


def endless(loader):
    while True:
        yield from loader


def images(size=32):
    return endless(DataLoader(TensorDataset(*stripes()), size, shuffle=True, drop_last=True))


def rate_of_ten(s):
    """SGD with a learning rate of ten on a residual network."""
    model = small_resnet()
    opt = optim.SGD(model.parameters(), lr=10.0 if s == 0 else 0.05, momentum=0.9)
    for _, (x, y) in zip(range(60), images(), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(x), y).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    rate_of_ten(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
