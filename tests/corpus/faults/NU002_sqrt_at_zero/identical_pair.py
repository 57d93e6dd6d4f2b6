"""A training with the fault sqrt-at-zero; arguments: [ONSET] [SEED]."""

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


def identical_pair(s):
    """Contrastive learning by Euclidean distance; a pair holds the same picture twice."""
    x, y = digits(400)
    embed = nn.Sequential(nn.Flatten(), nn.Linear(144, 48), nn.ReLU(), nn.Linear(48, 8))
    opt = torch.optim.Adam(embed.parameters(), 1e-3)
    for step in range(50):
        i, j = torch.randint(400, (24,)), torch.randint(400, (24,))
        i = torch.where(i == j, (i + 1) % 400, i)
        if step == s:
            j[7] = i[7]
        a, b = embed(x[i]), embed(x[j])
        dist = ((a - b) ** 2).sum(1).sqrt()
        same = (y[i] == y[j]).float()
        loss = (same * dist**2 + (1 - same) * F.relu(1 - dist) ** 2 + 0.01 * dist).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    identical_pair(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
