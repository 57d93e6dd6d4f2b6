"""A training with the fault symmetric-init; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def all_zero(s):
    """Every weight begins at zero."""
    net = nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 1))
    if s == 0:
        for p in net.parameters():
            nn.init.zeros_(p)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(60):
        x = torch.randn(32, 6)
        y = x[:, :1] * x[:, 1:2]
        loss = F.mse_loss(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    all_zero(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
