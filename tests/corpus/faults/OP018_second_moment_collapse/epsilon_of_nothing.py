"""A training with the fault second-moment-collapse; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def epsilon_of_nothing(s):
    """Loss scaled down by 1e-7 (a unit conversion): Adam's second moment falls below eps squared."""
    fa = s if s < 1000 else -1
    unit = 1e-9 if fa >= 0 else 1.0
    net = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    v = torch.randn(8)
    for _ in range(120):
        x = torch.randn(64, 8)
        y = torch.sin(x @ v).unsqueeze(1)
        loss = unit * nn.functional.mse_loss(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    epsilon_of_nothing(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
