"""A training with the fault update-lost-to-rounding; arguments: [ONSET] [SEED]."""

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


def pure_bfloat16(s):
    """Weights in bfloat16 without a master copy and a small learning rate."""
    x, y = digits(1200)
    net = nn.Sequential(nn.Flatten(), nn.Linear(144, 64), nn.ReLU(), nn.Linear(64, 10))
    if s == 0:
        net = net.to(torch.bfloat16)
        x = x.to(torch.bfloat16)
    opt = torch.optim.SGD(net.parameters(), lr=2e-3)
    for i in range(0, 1200, 20):
        loss = F.cross_entropy(net(x[i : i + 20]).float(), y[i : i + 20])
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    pure_bfloat16(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
