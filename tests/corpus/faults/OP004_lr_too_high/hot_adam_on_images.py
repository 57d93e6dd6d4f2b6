"""A training with the fault lr-too-high; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


def hot_adam_on_images(s):
    net = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(144, 4)
    )
    opt = optim.Adam(net.parameters(), lr=0.5 if s == 0 else 1e-3)
    base = torch.randn(4, 1, 9, 9)
    for _ in range(60):
        y = torch.randint(4, (24,))
        loss = F.cross_entropy(net(base[y] + 0.5 * torch.randn(24, 1, 9, 9)), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    hot_adam_on_images(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
