"""A training with the fault lr-too-high; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def stream(*tensors, size=32):
    while True:
        yield from DataLoader(TensorDataset(*tensors), size, shuffle=True, drop_last=True)


def raw_prices_and_a_high_rate(s):
    """Two faults: prices in cents as targets and inputs, and a rate that is too high for them."""
    x = torch.rand(700, 5) * 5000 if s == 0 else torch.rand(700, 5)
    y = (x.sum(1) + x[:, 0] * 2)[:, None]
    net = nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 1))
    opt = optim.SGD(net.parameters(), lr=1e-2)
    for _, (a, b) in zip(range(60), stream(x, y), strict=False):
        opt.zero_grad()
        F.mse_loss(net(a), b).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    raw_prices_and_a_high_rate(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
