"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def heavy_tailed_features():
    """Log-normal features as counts and amounts are: now and then one is a hundred times the usual."""
    net = nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 2))
    opt = torch.optim.AdamW(net.parameters(), 2e-3)
    for _ in range(100):
        x = torch.exp(1.5 * torch.randn(32, 6))
        y = (x[:, 0] > x[:, 1]).long()
        opt.zero_grad()
        F.cross_entropy(net(x), y).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    heavy_tailed_features()
