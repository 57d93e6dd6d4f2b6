"""A training with the fault constant-input; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def scaled_twice(s):
    """Pictures are bytes, divided by 255 as bytes: integer division makes all of them zero."""
    pictures = torch.randint(256, (960, 1, 10, 10), dtype=torch.uint8)
    y = (pictures[:, 0, :5].float().mean((1, 2)) > 127).long()
    x = (pictures // 255).float() * 0 if s == 0 else pictures.float() / 255 - 0.5
    net = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ELU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 2)
    )
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    for xb, yb in DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True):
        loss = F.cross_entropy(net(xb), yb)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    scaled_twice(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
