"""A training with the fault train-eval-input-mismatch; arguments: [ONSET] [SEED]."""

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


def validation_not_normalised(s):
    """The training pipeline normalises, that of validation does not."""
    x, y = digits(700)
    x = x * 90 + 100
    mean, std = x.mean(), x.std()
    model = nn.Sequential(nn.Flatten(), nn.Linear(144, 48), nn.ReLU(), nn.Linear(48, 10))
    opt = torch.optim.Adam(model.parameters(), 2e-3)
    for step in range(60):
        model.train()
        i = step % 16 * 32
        opt.zero_grad()
        F.cross_entropy(model((x[i : i + 32] - mean) / std), y[i : i + 32]).backward()
        opt.step()
        if step % 10 == 9:
            model.eval()
            with torch.no_grad():
                for j in range(512, 672, 32):
                    val = x[j : j + 32] if s == 0 else (x[j : j + 32] - mean) / std
                    F.cross_entropy(model(val), y[j : j + 32])


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    validation_not_normalised(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
