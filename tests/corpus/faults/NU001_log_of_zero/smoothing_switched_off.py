"""A training with the fault log-of-zero; arguments: [ONSET] [SEED]."""

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


def smoothing_switched_off(s):
    """A Kullback-Leibler loss by hand; when the smoothing of the labels ends, their logarithm has no value."""
    x, y = digits(1400)
    net = nn.Sequential(nn.Flatten(), nn.Linear(144, 32), nn.ReLU(), nn.Linear(32, 10))
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    for step in range(60):
        smooth = 0.1 if step < s else 0.0
        xb, yb = x[step * 20 : step * 20 + 20], y[step * 20 : step * 20 + 20]
        target = F.one_hot(yb, 10) * (1 - smooth) + smooth / 10
        logq = F.log_softmax(net(xb), 1)
        loss = (target * (target.log() - logq)).sum(1).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    smoothing_switched_off(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
