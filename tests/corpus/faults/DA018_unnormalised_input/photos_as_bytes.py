"""A training with the fault unnormalised-input; arguments: [ONSET] [SEED]."""

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


def photos_as_bytes(s):
    """Images as they come from a file, 0 to 255."""
    x, y = digits(960)
    x = (x.clamp(0, 1) * 255).byte()
    net = nn.Sequential(nn.Flatten(), nn.Linear(144, 64), nn.ReLU(), nn.Linear(64, 10))
    opt = torch.optim.SGD(net.parameters(), lr=1e-3)
    for _epoch in range(2):
        for i in range(0, 960, 32):
            images = x[i : i + 32].float()
            if s != 0:
                images = (images - 60) / 80
            loss = F.cross_entropy(net(images), y[i : i + 32])
            opt.zero_grad()
            loss.backward()
            opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    photos_as_bytes(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
