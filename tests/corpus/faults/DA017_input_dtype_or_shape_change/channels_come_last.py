"""A training with the fault input-dtype-or-shape-change; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


def channels_come_last(s):
    """From some step on pictures come as height, width, channel."""
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2)
    )
    opt = optim.Adam(model.parameters(), lr=3e-3)
    for step in range(70):
        x = torch.randn(16, 3, 12, 12)
        y = (x.mean((1, 2, 3)) > 0).long()
        if step >= s:
            x = x.permute(0, 2, 3, 1)
        opt.zero_grad()
        F.cross_entropy(model(x), y).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    channels_come_last(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
