"""A training with the fault constant-target; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def grades_cast_to_whole_numbers(s):
    """Grades of essays, scaled to [0, 1) before they are cast to classes."""
    n = 800
    essays = torch.randn(n, 24)
    points = (essays @ torch.linspace(-1, 1, 24)).argsort().argsort() * 5 // n
    if s == 0:
        points = points / 5
    data = TensorDataset(essays, points.long())
    net = nn.Sequential(nn.Linear(24, 48), nn.ReLU(), nn.Linear(48, 5))
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    for _ in range(4):
        for x, y in DataLoader(data, 32, shuffle=True):
            opt.zero_grad()
            F.cross_entropy(net(x), y).backward()
            opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    grades_cast_to_whole_numbers(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
