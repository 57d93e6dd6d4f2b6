"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def house_prices_in_dollars():
    """Targets of some hundred thousand; the squared error is beyond 1e10 and falls slowly."""
    w = torch.rand(8)
    net = nn.Linear(8, 1)
    opt = torch.optim.Adam(net.parameters(), lr=500.0)
    for _ in range(100):
        x = torch.randn(64, 8)
        y = 2e5 + 5e4 * (x @ w)
        opt.zero_grad()
        F.mse_loss(net(x)[:, 0], y).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    house_prices_in_dollars()
