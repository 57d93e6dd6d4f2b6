"""A training with the fault unnormalised-input; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def raw_census(s):
    """Age, income and year of birth as they are in the file."""
    n = 1600
    age, income = 18 + 60 * torch.rand(n), 20000 + 60000 * torch.rand(n)
    x = torch.stack([age, income, 2020 - age, torch.rand(n)], 1)
    y = (income > 45000).float()
    if s != 0:
        x = (x - x.mean(0)) / x.std(0)
    net = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 1))
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for _ in range(3):
        order = torch.randperm(n)
        for i in range(0, n, 32):
            batch = order[i : i + 32]
            opt.zero_grad()
            F.binary_cross_entropy_with_logits(net(x[batch])[:, 0], y[batch]).backward()
            opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    raw_census(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
